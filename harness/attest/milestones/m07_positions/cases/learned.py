"""Cases of learned positions. Shapes: x (B, T, D), table (max_len, D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array, float_dtype
from attest.judging.cases import dtypes, seeds
from attest.milestones.m03_feed_forward_and_embeddings.cases.embedding import PositionCase
from attest.milestones.m07_positions.cases.rotary import LENGTHS


@dataclass(frozen=True, kw_only=True)
class LearnedCase(PositionCase):
    """A table of max_len rows, of which the input reads the first T."""

    kind: ClassVar[str] = "learned"
    constants: ClassVar[Mapping[str, Any]] = {"num_heads": 1, "positions": "learned"}

    def of_length(self, length: int) -> Array:
        """Another input of this width."""
        return np.ones((self.B, length, self.D), float_dtype(self.dtype))


@st.composite
def learned_cases(draw: st.DrawFn) -> LearnedCase:
    """Tables as long as the input and longer, as long as they are wide, and of other sizes."""
    T = draw(st.sampled_from(LENGTHS))
    return LearnedCase(
        B=draw(st.sampled_from((2, 1, 3, T))),
        T=T,
        D=draw(st.sampled_from((4, 1, 7, T))),
        max_len=T + draw(st.sampled_from((0, 1, 6))),
        regime=draw(st.sampled_from(("unit", "tiny", "large"))),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
