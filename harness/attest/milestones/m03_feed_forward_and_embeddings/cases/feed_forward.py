"""Cases of the feed-forward network. Shapes: x (B, T, D), inner weight (F, D), outer weight (D, F)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config
from attest.judging.cases import Case, dtypes, regimes, seeds
from attest.judging.options import OTHER_ACTIVATION, first_offered
from attest.outcomes import Expected
from attest.reference.oracle import expected, random_parameters

_FEW: tuple[dict[str, Any], ...] = (
    {"D": 8, "d_ff": None, "activation": "relu", "bias": True},
    {"D": 12, "d_ff": 20, "activation": "gelu", "bias": True},
)


@dataclass(frozen=True, kw_only=True)
class FeedForwardCase(Case):
    """Random weights and inputs; d_ff None is the default width 4 * D."""

    kind: ClassVar[str] = "feed_forward"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")

    B: int = 1
    T: int = 1
    D: int = 4
    d_ff: int | None = None
    activation: str = "relu"
    bias: bool = True

    def fitted(self, impl: JudgedImplementation) -> Self:
        case = super().fitted(impl)
        if impl.policy.one_config:
            case = case.but(**_FEW[case.seed % len(_FEW)])
        other = {"activation": OTHER_ACTIVATION[case.activation]}
        biased = {"bias": True}
        return first_offered(impl, "feed_forward", case, biased, other, other | biased)

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, self.activation)

    @property
    def config(self) -> Config:
        return Config(
            d_model=self.D,
            num_heads=1,
            d_ff=self.d_ff,
            activation=self.activation,
            bias=self.bias,
            dtype=self.dtype,
        )

    @cached_property
    def parameters(self) -> dict[str, Array]:
        return random_parameters("feed_forward", self.config, self.rng(1), regime=self.regime)

    @cached_property
    def x(self) -> Array:
        return self.draw(self.rng(), self.B, self.T, self.D)

    @cached_property
    def expected(self) -> Expected:
        return self.expected_for(self.x)

    def expected_for(self, x: Array) -> Expected:
        return expected("feed_forward", self.config, self.parameters, {"x": x})["output"]

    def changed_at(self, b: int, t: int) -> Array:
        """x with one position replaced."""
        x = self.x.copy()
        x[b, t] = self.draw(self.rng(3), self.D) + 1
        return x

    def repeated(self) -> Array:
        """x with its first position everywhere."""
        return np.broadcast_to(self.x[:1, :1], self.x.shape).copy()

    def cotangents(self) -> dict[str, Array]:
        return {"output": self.draw(self.rng(2), self.B, self.T, self.D, regime="unit")}


@st.composite
def feed_forward_cases(draw: st.DrawFn, *, min_length: int = 1) -> FeedForwardCase:
    """Widths from 1, inner widths below, at and above the width, both activations."""
    return FeedForwardCase(
        B=draw(st.integers(1, 4)),
        T=draw(st.integers(min_length, 9)),
        D=draw(st.integers(1, 12)),
        d_ff=draw(st.one_of(st.none(), st.integers(1, 24))),
        activation=draw(st.sampled_from(("relu", "gelu"))),
        bias=draw(st.sampled_from((True, True, False))),
        regime=draw(regimes()),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
