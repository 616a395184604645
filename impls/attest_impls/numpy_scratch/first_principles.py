"""The pieces one at a time: linear map, activation, softmax, cross-entropy, optimisers, first weights.

Shapes: B batch, T positions, S entries of a row, V classes, a weight is (O outputs, I inputs).
"""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Array, Arrays, Config

from . import arguments
from .activation import ACTIVATIONS
from .attention import Softmax
from .component import Component, Cotangent, Outputs, check_names
from .layers import Cache, DType, Linear, Map, Random
from .loss import CrossEntropy
from .operations import MapOperation
from .optimisation import Adam

NO_PADDING = -1  # no label has this id


def linear(config: Config, dtype: DType, rng: Random) -> MapOperation[Linear]:
    """x (B, T, D) to x W^T + b (B, T, F)."""
    arguments.positive_sizes(config, "d_model", "d_ff")
    layer = Linear(config.d_model, config.inner_width, config.bias, dtype, rng)
    return MapOperation(layer, config.d_model, dtype)


def activation(config: Config, dtype: DType, rng: Random) -> MapOperation[Map]:
    """Each number of x (B, T, D) by itself, whatever D is."""
    arguments.one_of("activation", config.activation, tuple(ACTIVATIONS))
    return MapOperation(ACTIVATIONS[config.activation](), None, dtype)


class SoftmaxOperation(Component[Softmax]):
    """Over the last axis of x (B, T, S)."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__(Softmax(), dtype)

    def run(self, rng: Random | None, *, x: Array) -> Outputs:
        x = arguments.real_array("x", x, self.dtype, rank=3)
        arguments.require(x.shape[-1] > 0, "x.shape", x.shape, "has no entries", "give at least one")
        output, cache = self.layer.forward(x)
        return {"output": output.copy()}, cache  # backward needs the output: it stays the layer's own

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        return {"x": self.layer.backward(cotangent("output"), cache)}


class CrossEntropyOperation(Component[CrossEntropy]):
    """The mean of -log p(label) over all positions of logits (B, T, V); no label is padding."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__(CrossEntropy(NO_PADDING), dtype)

    def run(self, rng: Random | None, *, logits: Array, labels: Array) -> Outputs:
        logits = arguments.real_array("logits", logits, self.dtype, rank=3)
        arguments.require(logits.size > 0, "logits.shape", logits.shape, "is empty", "give some positions")
        loss, cache = self.layer.forward(logits, arguments.labels(labels, logits))
        return {"loss": loss}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        return {"logits": self.layer.backward(cotangent("loss"), cache)}


class Update:
    """An optimiser over any named arrays; a subclass says how one of them moves."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        self.config, self.dtype = config, dtype
        self.load({})

    def parameters(self) -> Arrays:
        return {name: value.copy() for name, value in self.values.items()}

    def load(self, parameters: Arrays) -> None:
        """Set the parameters and forget what past gradients left."""
        self.values = {name: np.array(value, self.dtype) for name, value in parameters.items()}

    def step(self, gradients: Arrays, rate: float) -> None:
        check_names(gradients, self.values)
        self.move({name: np.asarray(g, self.dtype) for name, g in gradients.items()}, float(rate))

    def move(self, gradients: Arrays, rate: float) -> None:
        raise NotImplementedError


class SGD(Update):
    """Each number goes down its gradient: p - rate g."""

    def move(self, gradients: Arrays, rate: float) -> None:
        for name, value in self.values.items():
            value -= rate * gradients[name]


class Momentum(Update):
    """A heavy ball: v = momentum v + g and p - rate v. Steps add up along a slope, and cancel across it."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.rate("momentum", config.momentum)
        super().__init__(config, dtype, rng)

    def load(self, parameters: Arrays) -> None:
        super().load(parameters)
        self.velocity = {name: np.zeros_like(value) for name, value in self.values.items()}

    def move(self, gradients: Arrays, rate: float) -> None:
        for name, velocity in self.velocity.items():
            velocity *= self.config.momentum
            velocity += gradients[name]
            self.values[name] -= rate * velocity


class PlainAdam(Update):
    """Adam with the constants of the config."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.adam(config)
        super().__init__(config, dtype, rng)

    def load(self, parameters: Arrays) -> None:
        super().load(parameters)
        self.adam = Adam(self.values)
        c = self.config
        self.adam.beta1, self.adam.beta2, self.adam.epsilon = c.beta1, c.beta2, c.adam_eps

    def move(self, gradients: Arrays, rate: float) -> None:
        self.adam.step(gradients, rate)


class AdamW(PlainAdam):
    """Matrices first lose the share rate * weight_decay of themselves; then Adam, which knows nothing of it.

    As a part of the gradient the decay would be divided by the root of the mean square like everything else:
    what has large gradients would hardly decay. Biases and gains of norms have one axis and do not decay.
    """

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        good = arguments.is_number(config.weight_decay) and config.weight_decay >= 0
        arguments.require(good, "weight_decay", config.weight_decay, "is not 0 or more", "try 0.01")
        super().__init__(config, dtype, rng)

    def move(self, gradients: Arrays, rate: float) -> None:
        for value in self.values.values():
            if value.ndim >= 2:
                value *= 1 - rate * self.config.weight_decay
        super().move(gradients, rate)


def xavier(outputs: int, inputs: int, seed: int) -> Array:
    """Uniform with variance 2 / (I + O): a compromise between keeping signals and keeping gradients."""
    check_fans(outputs, inputs)
    limit = math.sqrt(6 / (inputs + outputs))
    return np.random.default_rng(seed).uniform(-limit, limit, (outputs, inputs))


def he(outputs: int, inputs: int, seed: int) -> Array:
    """Normal with variance 2 / I: ReLU halves the mean square of what passes it."""
    check_fans(outputs, inputs)
    return np.random.default_rng(seed).normal(0, math.sqrt(2 / inputs), (outputs, inputs))


def check_fans(outputs: int, inputs: int) -> None:
    for name, value in (("outputs", outputs), ("inputs", inputs)):
        good = arguments.is_integer(value) and value >= 1
        arguments.require(good, name, value, "is not a positive integer", "give 1 or more")
