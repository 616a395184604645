"""Cases of schedules, clipping and Adam."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config, float_dtype
from attest.contract.parameters import shapes
from attest.judging.architectures import ArchitectureCase
from attest.judging.cases import Case, dtypes, seeds
from attest.judging.options import first_offered
from attest.reference.oracle import random_parameters


@dataclass(frozen=True, kw_only=True)
class ScheduleCase(Case):
    """A schedule and the steps at which it turns."""

    kind: ClassVar[str] = "schedule"

    schedule: str = "inverse_sqrt"
    d_model: int = 64
    warmup: int = 4
    total: int = 100
    peak: float = 1e-3
    floor: float = 0.0

    @property
    def other(self) -> Self:
        """The same case for the other schedule."""
        return self.but(schedule="cosine" if self.schedule == "inverse_sqrt" else "inverse_sqrt")

    @property
    def regimes(self) -> tuple[str, ...]:
        kinds = {0: "no warm-up", 1: "warm-up 1", self.total: "warm-up to the end"}
        return (self.schedule, kinds.get(self.warmup, "warm-up"))

    @property
    def config(self) -> Config:
        return Config(
            d_model=self.d_model,
            num_heads=1,
            schedule=self.schedule,
            warmup=self.warmup,
            total_steps=self.total,
            peak_rate=self.peak,
            floor_rate=self.floor,
        )

    @property
    def steps(self) -> list[int]:
        """Around every corner and in between, in order."""
        w, total = self.warmup, self.total
        corners = {
            1,
            2,
            w // 2,
            w - 1,
            w,
            w + 1,
            4 * w,
            (w + total) // 2,
            total - 1,
            total,
            total + 1,
            3 * total,
        }
        return sorted(step for step in corners if step >= 1)


@st.composite
def schedule_cases(draw: st.DrawFn, *, warms_up: bool = True) -> ScheduleCase:
    """Warm-up 1, typical, and as long as the training; or none at all."""
    total = draw(st.sampled_from((1, 10, 100, 5000)))
    warmup = draw(st.sampled_from((max(1, total // 4), 1, total, total // 2 + 1))) if warms_up else 0
    return ScheduleCase(
        schedule=draw(st.sampled_from(("inverse_sqrt", "cosine"))),
        d_model=draw(st.sampled_from((64, 8, 512, 7))),
        warmup=warmup,
        total=total,
        peak=draw(st.sampled_from((1e-3, 0.5))),
        floor=draw(st.sampled_from((0.0, 1e-5))),
    )


@dataclass(frozen=True, kw_only=True)
class ClippingCase(Case):
    """A few arrays of unlike shapes and sizes; `length` is their common norm."""

    kind: ClassVar[str] = "clipping"

    arrays: int = 3
    length: float = 2.0
    limit: float = 1.0

    @property
    def regimes(self) -> tuple[str, ...]:
        side = "above" if self.length > self.limit else "below" if self.length else "zeros"
        return (self.dtype, side)

    @property
    def config(self) -> Config:
        return Config(clip_norm=self.limit, dtype=self.dtype)

    @cached_property
    def gradients(self) -> dict[str, Array]:
        rng = self.rng()
        drawn = [
            rng.standard_normal((*(3, 4)[: i % 3], i + 1)) * 10.0 ** (-(i % 5)) for i in range(self.arrays)
        ]
        norm = math.sqrt(sum(float(np.square(g).sum()) for g in drawn))
        dtype = float_dtype(self.dtype)
        return {f"array{i}.weight": (g * (self.length / norm)).astype(dtype) for i, g in enumerate(drawn)}


# As many as a model has: clipping array by array is nearly right for one or two.
MANY_ARRAYS = (
    ClippingCase(arrays=20),
    ClippingCase(arrays=20, length=30.0, limit=5.0, dtype="float64", seed=1),
)
UNLIMITED = ClippingCase(length=30.0, limit=math.inf)
# On both sides of every limit that is drawn; 1e-6, where an epsilon in the divisor would show; and zero,
# where the factor is 0 / 0 without one.
LENGTHS = (2.0, 0.5, 1e-6, 1e6, 0.0, 1.5, 30.0)


@st.composite
def clipping_cases(draw: st.DrawFn, *, lengths: tuple[float, ...] = LENGTHS) -> ClippingCase:
    """Norms on both sides of the limit, tiny, huge and zero."""
    return ClippingCase(
        arrays=draw(st.integers(1, 5)),
        length=draw(st.sampled_from(lengths)),
        limit=draw(st.sampled_from((1.0, 1.0, 0.25, 5.0))),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )


@dataclass(frozen=True, kw_only=True)
class AdamCase(ArchitectureCase):
    """Gradients that change from step to step, of sizes from 1e-8 to 10, and changing rates.

    After the first step some arrays have no gradient, and some numbers of the others have none.
    """

    kind: ClassVar[str] = "adam"
    own_options: ClassVar[Mapping[str, str]] = {"bias": "bias"}
    widens: ClassVar[str] = "width"

    width: int = 4
    bias: bool = True
    count: int = 5

    def fitted(self, impl: JudgedImplementation) -> Self:
        case = super().fitted(impl)
        if not self.architecture.optional:
            case = first_offered(impl, self.architecture.optimizer, case, {"bias": True})
        return case.but(width=4, bias=True) if case.fixed else case

    @property
    def config(self) -> Config:
        return self.with_options(self.plain)

    @property
    def plain(self) -> Config:
        """The config without the options that were picked."""
        return Config(
            d_model=self.width,
            num_heads=1,
            d_ff=5,
            num_encoder_layers=1,
            num_decoder_layers=1,
            source_vocab=5,
            target_vocab=5,
            max_len=8,
            bias=self.bias,
            dtype=self.dtype,
        )

    def parameters(self, salt: int = 1) -> dict[str, Array]:
        """Random ones of the model that is optimised."""
        return random_parameters(self.architecture.operation, self.config, self.rng(salt))

    @property
    def rates(self) -> list[float]:
        return [float(r) for r in self.rng(3).choice((1e-3, 0.01, 0.3), self.count)]

    def gradients(self, step: int) -> dict[str, Array]:
        """One array per parameter."""
        rng = self.rng(4, step)
        dtype = float_dtype(self.dtype)
        found: dict[str, Any] = {}
        for i, (name, shape) in enumerate(shapes(self.architecture.operation, self.config).items()):
            # At 1e-8 an epsilon of 1e-9 inside the root makes a step 3000 times too short; at 10 it does not
            # matter.
            size = 10.0 ** rng.integers(-8, 2, shape)
            if step:
                size = size * (rng.random(shape) < 0.8) * (i % 4 != step % 4)
            found[name] = (rng.standard_normal(shape) * size).astype(dtype)
        return found


# After 40 steps the correction 1 - 0.98^t is still 0.55: bias correction that stops early shows.
LONG_ADAM = AdamCase(count=40, dtype="float64", seed=1)


def adam_cases() -> st.SearchStrategy[AdamCase]:
    """Over the parameters of a very small transformer."""
    return st.builds(
        AdamCase,
        width=st.integers(1, 4),
        bias=st.booleans(),
        count=st.integers(5, 7),
        dtype=dtypes(),
        seed=seeds(),
    )
