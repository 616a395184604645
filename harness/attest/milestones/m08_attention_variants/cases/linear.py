"""Cases of attention with a kernel.

Shapes: q (B, H, T, d), k (B, H, S, d), v (B, H, S, d_v), mask (B, 1, S).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.regimes import hiding_mask
from attest.milestones.m08_attention_variants.cases.heads_apart import HeadsApartCase, sizes

# Below -17 elu(x) + 1 has no digit left in float32, so that inputs of size 30 show nothing.
REGIMES = ("unit", "init", "tiny", "offset")
MASKS = ("none", "keys", "one")


@dataclass(frozen=True, kw_only=True)
class LinearCase(HeadsApartCase):
    """`mask`: none, keys (B, 1, S), one (1, 1, S)."""

    kind: ClassVar[str] = "linear"
    masks: ClassVar[tuple[str, ...]] = ("mask",)
    operates: ClassVar[str] = "linear_attention"

    mask: str = "none"

    @cached_property
    def allowed(self) -> Array:
        """(B or 1, 1, S); the first key is visible where attention is causal, so that each query sees one."""
        rows = {"keys": self.B, "one": 1}.get(self.mask, 0)
        if not rows:
            return np.ones((self.B, 1, self.S), bool)
        return hiding_mask(self.rng(2), (rows, 1, self.S), self.S - self.T if self.causal else None)

    def mask_of(self, name: str) -> Array | None:
        return None if self.mask == "none" else self.allowed

    @property
    def visible(self) -> Array:
        shape = (self.B, self.H, self.T, self.S)
        return np.broadcast_to(self.allowed[:, None] & self.triangle, shape)

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, f"mask {self.mask}")


@st.composite
def linear_cases(
    draw: st.DrawFn, *, causal: bool | None = None, masks: tuple[str, ...] = MASKS
) -> LinearCase:
    """With and without hidden keys, causal and not."""
    fields: dict[str, Any] = draw(sizes(causal=causal))
    return LinearCase(**fields, mask=draw(st.sampled_from(masks)), regime=draw(st.sampled_from(REGIMES)))
