"""Between a gradient and the next parameters: schedules, clipping, Adam (the paper's section 5.3)."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from attest.contract import Config

from .arguments import SCHEDULE, check_config

BETA1, BETA2, EPSILON = 0.9, 0.98, 1e-9
GROUP = 2**19  # numbers updated together: few kernels for a small model, and a large one stays in the cache


class LearningRate:
    """The rate of each step, counted from 1. Without warm-up it starts at the peak."""

    def __init__(self, config: Config) -> None:
        check_config(config, *SCHEDULE)
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
    """The length of all gradients laid end to end."""
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))


def clip_factor(norm: Tensor, limit: float) -> Tensor:
    """One factor for all: below the limit exactly 1, beyond it what brings the norm down to the limit."""
    return torch.clamp(limit / norm, max=1.0)


class Adam:
    """Adam without weight decay; epsilon is added outside the root."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.parameters = list(parameters)
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        self.steps += 1
        size = -rate / (1 - BETA1**self.steps)
        root = math.sqrt(1 - BETA2**self.steps)
        for group in self._groups():
            p, m, v, g = (
                [x[i] for i in group] for x in (self.parameters, self.first, self.second, gradients)
            )
            torch._foreach_lerp_(m, g, 1 - BETA1)
            torch._foreach_mul_(v, BETA2)
            torch._foreach_addcmul_(v, g, g, 1 - BETA2)
            spread = torch._foreach_sqrt(v)
            torch._foreach_div_(spread, root)
            torch._foreach_add_(spread, EPSILON)
            torch._foreach_addcdiv_(p, m, spread, size)

    def _groups(self) -> list[list[int]]:
        groups: list[list[int]] = [[]]
        total = 0
        for i, p in enumerate(self.parameters):
            if groups[-1] and total + p.numel() > GROUP:
                groups.append([])
                total = 0
            groups[-1].append(i)
            total += p.numel()
        return groups if groups[0] else []
