"""Between a gradient and the next parameters: schedules, clipping, Adam (the paper's section 5.3)."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from attest.contract import Config

from .settings import check_config

BETA1, BETA2, EPSILON = 0.9, 0.98, 1e-9


class LearningRate:
    """The rate of each step, counted from 1. Without warm-up it starts at the peak."""

    def __init__(self, config: Config) -> None:
        check_config("learning_rate", config)
        self.config = config

    def __call__(self, step: int) -> float:
        if isinstance(step, bool) or int(step) != step or step < 1:
            raise ValueError(f"step={step} is not a step number; count from 1")
        return self._cosine(int(step)) if self.config.schedule == "cosine" else self._inverse_sqrt(int(step))

    def _inverse_sqrt(self, step: int) -> float:
        warmup = self.config.warmup
        rising = step * warmup**-1.5 if warmup else math.inf
        return float(self.config.d_model**-0.5 * min(step**-0.5, rising))

    def _cosine(self, step: int) -> float:
        c = self.config
        if step <= c.warmup:
            return c.peak_rate * step / c.warmup
        done = min(1.0, (step - c.warmup) / max(1, c.total_steps - c.warmup))
        return c.floor_rate + (c.peak_rate - c.floor_rate) * (1 + math.cos(math.pi * done)) / 2


def global_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The length of all gradients laid end to end, in float64: it holds the square of any float32."""
    lengths = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in gradients]
    return torch.linalg.vector_norm(torch.stack(lengths))


def clip_factor(norm: Tensor, limit: float) -> Tensor:
    """One factor for all: below the limit exactly 1, beyond it what brings the norm down to the limit."""
    return torch.clamp(limit / norm, max=1.0)


class Adam:
    """Adam without weight decay; epsilon is added outside the root."""

    beta1, beta2, epsilon = BETA1, BETA2, EPSILON

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.parameters = list(parameters)
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        """p - rate * m / (sqrt(v) + epsilon), with m and v divided by 1 - beta^t: they started at zero."""
        self.steps += 1
        for p, g, m, v in zip(self.parameters, gradients, self.first, self.second):
            m.lerp_(g, 1 - self.beta1)  # beta1 m + (1 - beta1) g
            v.mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)  # beta2 v + (1 - beta2) g^2
            root = (v / (1 - self.beta2**self.steps)).sqrt_().add_(self.epsilon)
            p.addcdiv_(m, root, value=-rate / (1 - self.beta1**self.steps))
