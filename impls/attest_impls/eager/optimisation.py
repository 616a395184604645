"""Between a gradient and the next parameters: schedules, clipping, Adam (the paper's section 5.3)."""

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from attest.contract import Config

from .arguments import SCHEDULE, check_config

BETA1, BETA2, EPSILON = 0.9, 0.98, 1e-9
PIECE = 2**18  # numbers updated together: what fits a processor's cache


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
    """The length of all gradients laid end to end.

    In float64, which holds the square of any float32 but is four times as slow, where squares may leave the
    range of float32; and on a GPU, where looking at the norm would wait for it.
    """
    pieces = [piece for g in gradients for piece in g.reshape(-1).split(PIECE)]
    if all(piece.dtype == torch.float32 and piece.device.type == "cpu" for piece in pieces):
        squares = torch.stack([torch.dot(piece, piece) for piece in pieces])
        norm = squares.double().sum().sqrt()
        if 1e-12 < norm < 1e18:
            return norm
    lengths = [torch.linalg.vector_norm(piece, dtype=torch.float64) for piece in pieces]
    return torch.linalg.vector_norm(torch.stack(lengths))


def clip_factor(norm: Tensor, limit: float) -> Tensor:
    """One factor for all: below the limit exactly 1, beyond it what brings the norm down to the limit."""
    return torch.clamp(limit / norm, max=1.0)


class Adam:
    """Adam without weight decay; epsilon is added outside the root.

    Small parameters are updated together, laid end to end, and large ones piece by piece: few kernels for a
    small model, and a large one is read from memory once.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.parameters = list(parameters)
        self._groups = list(_grouped(self.parameters))
        self._first = [torch.zeros_like(_joined(group)) for group in self._groups]
        self._second = [torch.zeros_like(_joined(group)) for group in self._groups]
        self.steps = 0

    def moments(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Both moments of each parameter, in their order; views of what is held."""
        for group, first, second in zip(self._groups, self._first, self._second):
            sizes = [p.numel() for p in group]
            for p, m, v in zip(group, first.split(sizes), second.split(sizes)):
                yield m.view_as(p), v.view_as(p)

    def joined(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The gradients of each group end to end, as `step` takes them."""
        left = iter(gradients)
        return [_joined([next(left) for _ in group]) for group in self._groups]

    @torch.no_grad()
    def step(self, joined: Sequence[Tensor], rate: float, factor: Tensor | float = 1.0) -> None:
        """One update from gradients times `factor`. The gradients are used up."""
        self.steps += 1
        size = -rate / (1 - BETA1**self.steps)
        root = math.sqrt(1 - BETA2**self.steps)
        for group, g, m, v in zip(self._groups, joined, self._first, self._second):
            for pieces in zip(g.split(PIECE), m.split(PIECE), v.split(PIECE)):
                _direction(*pieces, factor, root)
            shares = g.split([p.numel() for p in group])
            for p, share in zip(group, shares):
                p.add_(share.view_as(p), alpha=size)


def _direction(g: Tensor, m: Tensor, v: Tensor, factor: Tensor | float, root: float) -> None:
    """Move the moments on and leave m / (sqrt(v) / root + epsilon) in g."""
    g.mul_(factor)
    m.lerp_(g, 1 - BETA1)
    v.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
    torch.sqrt(v, out=g)
    torch.div(m, g.div_(root).add_(EPSILON), out=g)


def _grouped(parameters: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours whose sizes add up to at most a piece; a larger one alone."""
    group: list[Tensor] = []
    for p in parameters:
        if group and sum(q.numel() for q in group) + p.numel() > PIECE:
            yield group
            group = []
        group.append(p)
    if group:
        yield group


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    flat = [t.detach().reshape(-1) for t in tensors]
    return flat[0] if len(flat) == 1 else torch.cat(flat)
