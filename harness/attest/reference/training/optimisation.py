"""From gradients to the next parameters: schedule, clipping, Adam. Plain arrays, no tape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from attest.contract import Arrays
from attest.reference.parts.part import Part
from attest.reference.tape import Array
from attest.reference.validation import check_size


@dataclass
class Moments:
    """Adam's state: how many steps were taken, and the two running means by parameter name."""

    steps: int = 0
    first: dict[str, Array] = field(default_factory=dict)
    second: dict[str, Array] = field(default_factory=dict)


class Schedule(Part):
    """The learning rate of a step; steps count from 1."""

    def __call__(self, step: int) -> float:
        return self.cosine_rate(step) if self.config.schedule == "cosine" else self.inverse_sqrt_rate(step)

    def check_step(self, step: int) -> None:
        check_size("step", step)

    def inverse_sqrt_rate(self, step: int) -> float:
        """The paper's section 5.3; without warmup it starts at the peak."""
        rising = step * self.config.warmup**-1.5 if self.config.warmup else math.inf
        return float(self.config.d_model**-0.5 * min(step**-0.5, rising))

    def cosine_rate(self, step: int) -> float:
        """Up in a straight line, then down half a cosine to the floor, and there it stays."""
        c = self.config
        if step <= c.warmup:
            return c.peak_rate * step / c.warmup
        done = min((step - c.warmup) / max(c.total_steps - c.warmup, 1), 1.0)
        return c.floor_rate + (c.peak_rate - c.floor_rate) * (1.0 + math.cos(math.pi * done)) / 2.0


class Clipping(Part):
    """Gradients scaled down together when their norm exceeds the limit."""

    def global_norm(self, gradients: Arrays) -> float:
        """The length of all gradients laid end to end."""
        return math.sqrt(sum(float(np.square(g, dtype=np.float64).sum()) for g in gradients.values()))

    def clip_factor(self, norm: float) -> float:
        """1 up to the limit, beyond it what brings the norm down to the limit."""
        return self.config.clip_norm / norm if norm > self.config.clip_norm else 1.0

    def clip(self, gradients: Arrays) -> dict[str, Array]:
        factor = self.clip_factor(self.global_norm(gradients))
        return {name: g * factor for name, g in gradients.items()}


class Adam(Part):
    """Adam with the constants of the paper's section 5.3."""

    beta1, beta2, adam_epsilon = 0.9, 0.98, 1e-9

    def adam_step(
        self, parameters: Mapping[str, Array], moments: Moments, gradients: Arrays, rate: float
    ) -> dict[str, Array]:
        """New parameters in float64; the moments are moved on."""
        moments.steps += 1
        return {
            name: np.asarray(value, dtype=np.float64)
            - rate * self.adam_direction(name, np.asarray(gradients[name], dtype=np.float64), moments)
            for name, value in parameters.items()
        }

    def adam_direction(self, name: str, g: Array, moments: Moments) -> Array:
        """Corrected first moment over the root of the corrected second; no weight decay."""
        first = self.beta1 * moments.first.get(name, 0.0) + (1 - self.beta1) * g
        second = self.beta2 * moments.second.get(name, 0.0) + (1 - self.beta2) * g * g
        moments.first[name], moments.second[name] = first, second
        mean = first / (1 - self.beta1**moments.steps)
        spread = second / (1 - self.beta2**moments.steps)
        direction: Array = mean / (np.sqrt(spread) + self.adam_epsilon)
        return direction
