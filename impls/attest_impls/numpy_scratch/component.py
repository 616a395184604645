"""What every operation shares: numpy arrays in by keyword, named arrays out, parameters by canonical name.

An operation is a subclass with two methods. `run` takes the generator of dropout (None in eval) and the
inputs, checks them, and returns the outputs and a cache. `back` takes the cotangents by name and that cache,
and returns the gradients of the floating inputs; those of the parameters it leaves in the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from attest.contract import Array, Arrays, Gradients

from .arguments import require
from .layers import Cache, DType, Layer, Random

Owned = TypeVar("Owned", bound=Layer)
R = TypeVar("R")
Outputs = tuple[dict[str, Array], Cache]
Cotangent = Callable[[str], Array]


class Component(Generic[Owned]):
    """A layer behind the contract's surface."""

    run: Callable[..., Outputs]

    def __init__(self, layer: Owned, dtype: DType) -> None:
        self.layer, self.dtype = layer, dtype
        self.seed: int | None = None

    def __call__(self, **inputs: Any) -> Arrays:
        return self.guarded(lambda rng: self.run(rng, **inputs))[0]

    def gradients(self, inputs: Mapping[str, Any], cotangents: Arrays) -> Gradients:
        """Gradients of the sum over the named outputs of <cotangent, output>."""
        self.layer.zero_grads()
        of_inputs = self.pulled_back(inputs, cotangents)
        return Gradients(of_inputs, self.layer.all_grads())

    def pulled_back(self, inputs: Mapping[str, Any], cotangents: Arrays) -> dict[str, Array]:
        """Gradients of the inputs; those of the parameters are added to what the layers hold."""
        outputs, cache = self.guarded(lambda rng: self.run(rng, **inputs))
        for name, cotangent in cotangents.items():
            require(name in outputs, "cotangent", name, "names no output", f"choose of {', '.join(outputs)}")
            shape, expected = np.shape(cotangent), outputs[name].shape
            require(shape == expected, f"{name}.shape", shape, "is not the output's", f"give {expected}")
        given = {name: np.asarray(value, self.dtype) for name, value in cotangents.items()}
        with np.errstate(over="ignore", invalid="ignore"):
            return self.back(lambda name: given.get(name, np.zeros_like(outputs[name])), cache)

    def add_gradients(self, inputs: Mapping[str, Any], cotangents: Arrays) -> None:
        """One more backward pass on top of those since the last `zero_gradients` or `gradients`."""
        self.held_gradients()
        self.pulled_back(inputs, cotangents)

    def held_gradients(self) -> Arrays:
        """Copies of what the layers hold; zeros before the first backward pass."""
        if any(name not in layer.grads for layer, name in self.layer.owners().values()):
            self.layer.zero_grads()
        return {name: gradient.copy() for name, gradient in self.layer.all_grads().items()}

    def zero_gradients(self) -> None:
        self.layer.zero_grads()

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        raise NotImplementedError(f"{type(self).__name__} has no gradients")

    def parameters(self) -> Arrays:
        return {name: value.copy() for name, value in self.layer.all_params().items()}

    def load(self, parameters: Arrays) -> None:
        """Copy these values in: every name, each of its shape, or nothing is loaded."""
        own = self.layer.all_params()
        check_names(parameters, own)
        for name, value in own.items():
            shape, rule = np.shape(parameters[name]), "is not the parameter's"
            require(shape == value.shape, f"{name}.shape", shape, rule, f"give {value.shape}")
        for name, value in own.items():
            value[...] = parameters[name]  # in place: a tied layer and an optimiser hold the same array

    def buffers(self) -> Arrays:
        return {}

    def train(self, seed: int) -> None:
        """Until `eval`, every call draws its dropout from this seed afresh."""
        self.seed = seed

    def eval(self) -> None:
        self.seed = None

    def guarded(self, forward: Callable[[Random | None], R]) -> R:
        """forward(rng), silent about junk behind a mask that overflows on its way."""
        rng = None if self.seed is None else np.random.default_rng(self.seed)
        with np.errstate(over="ignore", invalid="ignore"):
            return forward(rng)


def check_names(given: Iterable[str], expected: Iterable[str]) -> None:
    """The two have the same names."""
    given, expected = set(given), list(expected)
    for name in expected:
        require(name in given, "name", name, "is missing", "give every parameter")
    for name in sorted(given - set(expected)):
        require(False, "name", name, "is not a parameter", "leave it out")
