"""Cases of self-attention with positions.

Shapes: x (B, T, D), D = H * d, positions (B, T); G key heads of width d.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.cases import OperationCase, dtypes, picks, regimes, seeds
from attest.judging.regimes import hiding_mask
from attest.milestones.m07_positions.cases.rotary import FIELDS, LENGTHS, fitting_width

MASKS = ("none", "keys", "pairs", "shared", "one")
SCHEMES = ("rotary", "alibi", "relative")  # positions that act inside attention
RELATIVE = ("relative_buckets", "relative_distance")
OPTIONS = (*FIELDS, *RELATIVE, "num_kv_heads", "qk_norm", "qkv_bias")  # beside the kind of positions


@dataclass(frozen=True, kw_only=True)
class SelfAttentionCase(OperationCase):
    """`at`: counted (no positions are passed), shifted (each row from another place), gaps (rising by jumps).

    `mask`: none, keys (B, 1, T), pairs (B, T, T), shared (T, T), one (1, T, T).
    """

    kind: ClassVar[str] = "self_attention"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    masks: ClassVar[tuple[str, ...]] = ("mask",)
    operates: ClassVar[str] = "self_attention"
    settings: ClassVar[Mapping[str, str]] = {"D": "d_model", "H": "num_heads", "bias": "bias"}
    constants: ClassVar[Mapping[str, Any]] = {"dropout": 0.0}
    free: ClassVar[tuple[str, ...]] = OPTIONS

    B: int = 1
    H: int = 1
    T: int = 2
    d: int = 4
    bias: bool = True
    mask: str = "none"
    causal: bool = False
    at: str = "counted"

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"H": 2, "d": 4, "bias": True}

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        return ({"bias": not self.bias},)

    def settled(self) -> Self:
        """With the next width that rotary positions can turn."""
        if self.config.positions != "rotary":
            return self
        return self.but(d=fitting_width(self.d, self.config.rotary_fraction))

    def enlarged(self, width: int) -> Self:
        large = super().enlarged(width)
        return large.but(d=width // large.H).settled()

    @property
    def D(self) -> int:  # noqa: N802
        """Width of the model."""
        return self.H * self.d

    @property
    def regimes(self) -> tuple[str, ...]:
        causal = ("causal",) if self.causal else ()
        scheme = f"{self.config.positions} positions {self.at}"
        return (*super().regimes, f"mask {self.mask}", scheme, *causal)

    @cached_property
    def positions(self) -> Array:
        """(B, T): where the tokens stand."""
        rng = self.rng(3)
        if self.at == "gaps":
            jumps: Array = rng.choice((1, 1, 2, 9, 60, 250), (self.B, self.T))
            return jumps.cumsum(axis=1) - 1
        first = rng.integers(1, 2000, (self.B, 1)) if self.at == "shifted" else np.zeros((self.B, 1), int)
        return first + np.arange(self.T)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        given: dict[str, Any] = {} if self.at == "counted" else {"positions": self.positions}
        return {**super().inputs, **given, **({"causal": True} if self.causal else {})}

    def moved(self, shift: int) -> dict[str, Any]:
        """The same x, so many positions on."""
        return self.with_inputs(positions=self.positions + shift)

    def in_order(self, order: Array) -> dict[str, Any]:
        """The tokens in another order, which stand where the others stood; for cases without a mask."""
        return self.with_inputs(x=self.inputs["x"][:, order])

    def seeing_itself(self, positions: Array) -> dict[str, Any]:
        """Each token may see itself alone, so that its output is its own value."""
        return self.with_inputs(mask=np.eye(self.T, dtype=bool), positions=positions)

    def without_scores(self) -> dict[str, Array]:
        """The parameters with queries and keys that are zero: the scores are what positions add to them."""
        return {
            name: np.zeros_like(x) if name.startswith(("query.", "key.")) else x
            for name, x in self.parameters.items()
        }

    def mask_of(self, name: str) -> Array | None:
        return None if self.mask == "none" else self.allowed

    @cached_property
    def allowed(self) -> Array:
        """The mask as it is passed; every query sees a key, one before it where it is causal."""
        forms = {
            "keys": (self.B, 1, self.T),
            "pairs": (self.B, self.T, self.T),
            "shared": (self.T, self.T),
            "one": (1, self.T, self.T),
        }
        if self.mask not in forms:
            return np.ones((self.B, 1, self.T), bool)
        reach = (0 if self.mask == "keys" else np.arange(self.T)) if self.causal else None
        return hiding_mask(self.rng(2), forms[self.mask], reach)


@st.composite
def self_attention_cases(
    draw: st.DrawFn,
    *,
    schemes: tuple[str, ...] = SCHEMES,
    wants: str = "",
    at: tuple[str, ...] = ("gaps", "counted", "gaps", "shifted"),
    masks: tuple[str, ...] = MASKS,
    causal: bool | None = None,
    min_length: int = 1,
    min_heads: int = 1,
    kinds: tuple[str, ...] | None = None,
) -> SelfAttentionCase:
    """Sizes that coincide (B, H, d and T) and sizes that differ; `wants` are options beside the positions."""
    T = draw(st.sampled_from([n for n in LENGTHS if n >= min_length]))
    return SelfAttentionCase(
        B=draw(st.sampled_from((1, 2, 3, T))),
        H=draw(st.sampled_from([n for n in (2, 1, 3, 4, 6) if n >= min_heads])),
        T=T,
        d=draw(st.sampled_from((4, 2, 3, 5, 8, T))),
        bias=draw(st.booleans()),
        mask=draw(st.sampled_from(masks)),
        causal=draw(st.booleans()) if causal is None else causal,
        at=draw(st.sampled_from(at)),
        pick=draw(picks()),
        wants=f"positions:{draw(st.sampled_from(schemes))}{wants}",
        regime=draw(regimes() if kinds is None else st.sampled_from(kinds)),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
