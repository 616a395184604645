"""Cases of the feed-forward network. Shapes: x (B, T, D), inner weight (F, D), outer weight (D, F)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.cases import OperationCase, dtypes, regimes, seeds
from attest.judging.options import OTHER_ACTIVATION

_FEW: tuple[dict[str, Any], ...] = (
    {"D": 8, "d_ff": None, "activation": "relu", "bias": True},
    {"D": 12, "d_ff": 20, "activation": "gelu", "bias": True},
)


@dataclass(frozen=True, kw_only=True)
class FeedForwardCase(OperationCase):
    """Random weights and inputs; d_ff None is the default width 4 * D."""

    kind: ClassVar[str] = "feed_forward"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    operates: ClassVar[str] = "feed_forward"
    settings: ClassVar[Mapping[str, str]] = {
        "D": "d_model",
        "d_ff": "d_ff",
        "activation": "activation",
        "bias": "bias",
    }

    B: int = 1
    T: int = 1
    D: int = 4
    d_ff: int | None = None
    activation: str = "relu"
    bias: bool = True

    @property
    def narrowed(self) -> dict[str, Any]:
        return _FEW[self.seed % len(_FEW)]

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        other, biased = {"activation": OTHER_ACTIVATION[self.activation]}, {"bias": True}
        return biased, other, other | biased

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, self.activation)

    @property
    def x(self) -> Array:
        """The input."""
        return self.inputs["x"]  # type: ignore[no-any-return]

    def changed_at(self, b: int, t: int) -> Array:
        """x with one position replaced."""
        x = self.x.copy()
        # + 1, so that the change is large in the regime tiny too.
        x[b, t] = self.draw(self.rng(3), self.D) + 1
        return x

    def repeated(self) -> Array:
        """x with its first position everywhere."""
        return np.broadcast_to(self.x[:1, :1], self.x.shape).copy()


@st.composite
def feed_forward_cases(draw: st.DrawFn, *, min_length: int = 1) -> FeedForwardCase:
    """Widths from 1, inner widths below, at and above the width, both activations."""
    return FeedForwardCase(
        B=draw(st.integers(1, 4)),
        T=draw(st.integers(min_length, 9)),
        D=draw(st.integers(1, 12)),
        d_ff=draw(st.one_of(st.none(), st.integers(1, 24))),
        activation=draw(st.sampled_from(("relu", "gelu"))),
        # With biases more often: a bias that is left out, or added twice, needs one.
        bias=draw(st.sampled_from((True, True, False))),
        regime=draw(regimes()),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
