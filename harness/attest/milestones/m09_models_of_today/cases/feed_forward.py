"""Cases of the gated feed-forward network. Shapes: x (B, T, D), gate and inner (F, D), outer (D, F)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.cases import dtypes, regimes, seeds
from attest.milestones.m03_feed_forward_and_embeddings.cases.feed_forward import FeedForwardCase

ACTIVATIONS = ("silu", "gelu_tanh", "gelu", "relu")


@dataclass(frozen=True, kw_only=True)
class GatedCase(FeedForwardCase):
    """Gate and inner weights are drawn apart: where they are equal, exchanging them changes nothing."""

    kind: ClassVar[str] = "gated_feed_forward"
    settings: ClassVar[Mapping[str, str]] = {**FeedForwardCase.settings, "gated": "gated"}

    activation: str = "silu"
    gated: bool = True

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"D": 8, "d_ff": 12, "activation": "silu", "gated": True, "bias": False}

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        """One activation with a gate suffices; biases are an option."""
        others = [{"gated": True, "activation": name} for name in (self.activation, *ACTIVATIONS)]
        return tuple({**other, "bias": bias} for bias in (self.bias, not self.bias) for other in others)

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, "gated" if self.gated else "not gated")

    def scaled(self, name: str, factor: float) -> dict[str, Array]:
        """The parameters with weight and bias of one map times a factor."""
        return {
            key: (value * factor).astype(value.dtype) if key.startswith(f"{name}.") else value
            for key, value in self.parameters.items()
        }


@st.composite
def gated_cases(draw: st.DrawFn, *, ungated: bool = False) -> GatedCase:
    """Widths from 1, inner widths below, at and above the width; `ungated` has the new activations alone."""
    return GatedCase(
        B=draw(st.integers(1, 3)),
        T=draw(st.integers(1, 5)),
        D=draw(st.integers(1, 12)),
        d_ff=draw(st.one_of(st.none(), st.integers(1, 24))),
        activation=draw(st.sampled_from(ACTIVATIONS[:2] if ungated else ACTIVATIONS)),
        gated=not ungated,
        bias=draw(st.booleans()),
        regime=draw(regimes()),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
