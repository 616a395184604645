"""Cases of the norm by the root of the mean square. Shapes: x (B, T, D), weight (D,)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array, float_dtype
from attest.judging.cases import dtypes, seeds
from attest.milestones.m04_layers.cases.layers import AnyNormCase

REGIMES = ("unit", "root_of_eps", "spiky", "constant", "offset")
# As in models of today, where a few features are thousands of times as large as the others: the root is then
# that of one number, and the rest must keep its precision.
SPIKE = 1e4


@dataclass(frozen=True, kw_only=True)
class RmsCase(AnyNormCase):
    """Gains away from 1 and of both signs; inputs that tell one norm from another."""

    kind: ClassVar[str] = "rms_norm"
    operates: ClassVar[str] = "rms_norm"

    @cached_property
    def parameters(self) -> dict[str, Array]:
        """With a gain of 1 everywhere, one that is ignored would not show."""
        rng = self.rng(1)
        gains = rng.uniform(0.3, 3.0, self.D) * rng.choice((-1.0, 1.0), self.D)
        return {"weight": gains.astype(float_dtype(self.dtype))}

    @cached_property
    def inputs(self) -> dict[str, Any]:
        rng = self.rng()
        x = rng.standard_normal((self.B, self.T, self.D))
        # Where the mean square is about eps, the place of eps in the formula decides the result.
        if self.regime == "root_of_eps":
            x *= math.sqrt(self.eps)
        if self.regime == "spiky":
            place = rng.integers(0, self.D, (self.B, self.T, 1))
            x = np.where(np.arange(self.D) == place, self.in_range(SPIKE), 1.0) * x
        if self.regime == "constant":
            x[...] = x[..., :1]
            x[0, 0] = 0.0  # of zeros only eps is left under the root
        # A norm that subtracts the mean gives something else only where there is one.
        if self.regime == "offset":
            x += 20.0
        return {"x": x.astype(float_dtype(self.dtype))}

    @cached_property
    def far_from_eps(self) -> Array:
        """Each number between 500 and 2,000 in size, of either sign."""
        rng = self.rng(3)
        x = rng.uniform(500.0, 2000.0, self.x.shape) * rng.choice((-1.0, 1.0), self.x.shape)
        made: Array = x.astype(float_dtype(self.dtype))
        return made


def rms_cases(*, min_width: int = 1, regimes: tuple[str, ...] = REGIMES) -> st.SearchStrategy[RmsCase]:
    """Widths from 1, eps from what is usual to a large one that shows where it is added."""
    return st.builds(
        RmsCase,
        B=st.integers(1, 3),
        T=st.integers(1, 5),
        D=st.integers(min_width, 12),
        eps=st.sampled_from((1e-5, 1e-6, 1e-3, 0.5)),
        regime=st.sampled_from(regimes),
        dtype=dtypes(),
        seed=seeds(),
    )
