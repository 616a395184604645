"""Between a gradient and the next parameters: schedule, clipping, Adam (section 5.3 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from attest.contract import Array, Arrays, Config

from . import arguments


class LearningRate:
    """The rate of a step, counted from 1: linear warmup, then inverse square root or half a cosine."""

    def __init__(self, config: Config) -> None:
        arguments.schedule(config)
        self.config = config

    def __call__(self, step: int) -> float:
        good = arguments.is_integer(step) and step >= 1
        arguments.require(good, "step", step, "is not a step", "count from 1")
        return self._cosine(int(step)) if self.config.schedule == "cosine" else self._inverse_sqrt(int(step))

    def _inverse_sqrt(self, step: int) -> float:
        """d_model^-0.5 min(step^-0.5, step warmup^-1.5): the two meet at step == warmup."""
        warmup = self.config.warmup
        rising = step * warmup**-1.5 if warmup else math.inf
        return float(self.config.d_model**-0.5 * min(step**-0.5, rising))

    def _cosine(self, step: int) -> float:
        c = self.config
        if step < c.warmup:
            return c.peak_rate * step / c.warmup
        if step >= c.total_steps:
            return c.peak_rate if step == c.warmup else c.floor_rate
        progress = (step - c.warmup) / (c.total_steps - c.warmup)
        return c.floor_rate + (c.peak_rate - c.floor_rate) * (1 + math.cos(math.pi * progress)) / 2


def global_norm(gradients: Arrays) -> float:
    """The length of all gradients laid end to end, in float64: it holds the square of every float32."""
    flat = [gradient.ravel().astype(np.float64) for gradient in gradients.values()]
    return math.sqrt(sum(float(g @ g) for g in flat))


class ClipGradients:
    """All gradients times one factor, so that their common norm is at most clip_norm; 1 if it is already.

    One factor for all keeps the direction of the step. A factor for each array would turn it.
    """

    def __init__(self, config: Config) -> None:
        limit = config.clip_norm
        positive = limit == math.inf or (arguments.is_number(limit) and limit > 0)
        arguments.require(positive, "clip_norm", limit, "is not a positive number", "try 1.0")
        self.limit = float(limit)

    def __call__(self, gradients: Arrays) -> Arrays:
        factor = self.factor(global_norm(gradients))
        return {name: gradient * factor for name, gradient in gradients.items()}

    def factor(self, norm: float) -> float:
        return self.limit / norm if norm > self.limit else 1.0


class Adam:
    """Each number moves by rate * mean / (sqrt(square) + epsilon), without weight decay.

    `mean` and `square` are running averages of its gradient and of the gradient's square: a step is about as
    long as the rate where gradients agree, and shorter where they contradict each other. `values` are changed
    in place, so that the layers that hold them follow.
    """

    beta1, beta2, epsilon = 0.9, 0.98, 1e-9

    def __init__(self, values: Mapping[str, Array]) -> None:
        self.values = values
        self.mean = {name: np.zeros_like(value) for name, value in values.items()}
        self.square = {name: np.zeros_like(value) for name, value in values.items()}
        self.count = 0

    def step(self, gradients: Arrays, rate: float, factor: float = 1.0) -> None:
        """One update from the gradients times `factor`, the one that clips.

        Both averages start at zero, so the first ones are too small: after t equal gradients g the mean is
        (1 - beta1^t) g. Dividing by 1 - beta^t puts that right. `size` holds that of the mean, `debias` the
        root of that of the square. Every array here has the shape of its parameter.
        """
        self.count += 1
        size = float(rate) / (1 - self.beta1**self.count)
        debias = math.sqrt(1 - self.beta2**self.count)
        for name, value in self.values.items():
            g, mean, square = gradients[name] * factor, self.mean[name], self.square[name]
            mean += (1 - self.beta1) * (g - mean)
            square += (1 - self.beta2) * (g * g - square)
            root = np.sqrt(square)
            root /= debias
            root += self.epsilon
            value -= size * mean / root

    def forget(self) -> None:
        """As before the first step."""
        self.count = 0
        for average in (*self.mean.values(), *self.square.values()):
            average[...] = 0

    def state(self) -> dict[str, Array]:
        """Values and averages themselves, by kind and name: what a checkpoint holds."""
        kinds = {"parameter": self.values, "mean": self.mean, "square": self.square}
        return {f"{kind}/{name}": a for kind, arrays in kinds.items() for name, a in arrays.items()}
