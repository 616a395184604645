"""What every operation shares: numpy arrays in by keyword, named arrays out, parameters by canonical name.

An operation is a subclass with two methods. `run` takes the generator of dropout (None in eval) and the
inputs, checks them, and returns the outputs and a cache. `back` takes the cotangents by name and that cache,
and returns the gradients of the floating inputs; those of the parameters it leaves in the layers.
"""

from typing import NamedTuple

import numpy as np

from .arguments import require


class Gradients(NamedTuple):
    inputs: dict
    parameters: dict


class Component:
    """A layer behind the contract's surface."""

    def __init__(self, layer, dtype):
        self.layer, self.dtype, self.seed = layer, dtype, None

    def __call__(self, **inputs):
        return self.guarded(lambda rng: self.run(rng, **inputs))[0]

    def gradients(self, inputs, cotangents):
        """Gradients of the sum over the named outputs of <cotangent, output>."""
        outputs, cache = self.guarded(lambda rng: self.run(rng, **inputs))
        for name, cotangent in cotangents.items():
            require(name in outputs, "cotangent", name, "names no output", f"choose of {', '.join(outputs)}")
            shape, expected = np.shape(cotangent), outputs[name].shape
            require(shape == expected, f"{name}.shape", shape, "is not the output's", f"give {expected}")
        given = {name: np.asarray(value, self.dtype) for name, value in cotangents.items()}
        self.layer.zero_grads()
        with np.errstate(over="ignore", invalid="ignore"):
            of_inputs = self.back(lambda name: given.get(name, np.zeros_like(outputs[name])), cache)
        return Gradients(of_inputs, {n: layer.grads[own] for n, (layer, own) in self.layer.owners().items()})

    def parameters(self):
        return {name: layer.params[own].copy() for name, (layer, own) in self.layer.owners().items()}

    def load(self, parameters):
        """Copy these values in: every name, each of its shape, or nothing is loaded."""
        owners = self.layer.owners()
        check_names(parameters, owners)
        for name, (layer, own) in owners.items():
            shape, expected = np.shape(parameters[name]), layer.params[own].shape
            require(shape == expected, f"{name}.shape", shape, "is not the parameter's", f"give {expected}")
        for name, (layer, own) in owners.items():
            layer.params[own] = np.array(parameters[name], dtype=self.dtype, order="C")

    def buffers(self):
        return {}

    def train(self, seed):
        """Until `eval`, every call draws its dropout from this seed afresh."""
        self.seed = seed

    def eval(self):
        self.seed = None

    def guarded(self, forward, *inputs):
        """forward(*inputs, rng), silent about junk behind a mask that overflows on its way."""
        rng = None if self.seed is None else np.random.default_rng(self.seed)
        with np.errstate(over="ignore", invalid="ignore"):
            return forward(*inputs, rng)


def check_names(given, expected):
    """The two have the same names."""
    for name in expected:
        require(name in given, "name", name, "is missing", "give every parameter")
    for name in given:
        require(name in expected, "name", name, "is not a parameter", "leave it out")
