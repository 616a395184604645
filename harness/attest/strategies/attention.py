"""Cases of scaled dot-product attention.

Shapes: q (B, T, d_k), k (B, S, d_k), v (B, S, d_v), with a head axis after B where H > 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import Subject
from attest.contract import Array, Config
from attest.reference.oracle import Expected, expected
from attest.strategies.cases import Case, dtypes, regimes, seeds

MASKS = ("none", "keys", "pairs", "shared")


@dataclass(frozen=True, kw_only=True)
class AttentionCase(Case):
    """`mask`: none, keys (per row of the batch), pairs (per query and key), shared (T, S)."""

    kind: ClassVar[str] = "attention"
    lengths: ClassVar[tuple[str, ...]] = ("B", "H", "T", "S")

    B: int = 1
    H: int = 0
    T: int = 1
    S: int = 1
    d_k: int = 1
    d_v: int = 1
    mask: str = "none"
    causal: bool = False

    def fitted(self, subject: Subject) -> Self:
        case = super().fitted(subject)
        always = subject.policy.always_mask and case.mask == "none"
        return case.but(mask="all") if always else case

    @property
    def config(self) -> Config:
        """Attention reads only the dtype."""
        return Config(dtype=self.dtype)

    @property
    def leading(self) -> tuple[int, ...]:
        """(B,) or (B, H)."""
        return (self.B, self.H) if self.H else (self.B,)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """q, k, v and, where the case has them, mask and causal."""
        rng = self.rng()
        gain = 4.0 if self.regime == "saturated" else 1.0
        q = self.draw(rng, *self.leading, self.T, self.d_k) * np.asarray(gain, dtype=np.float32)
        k = self.draw(rng, *self.leading, self.S, self.d_k) * np.asarray(gain, dtype=np.float32)
        v = self.draw(rng, *self.leading, self.S, self.d_v)
        made: dict[str, Any] = {"q": q, "k": k, "v": v}
        if self.mask != "none":
            made["mask"] = self.allowed
        if self.causal:
            made["causal"] = True
        return made

    @cached_property
    def allowed(self) -> Array:
        """The mask as it is passed; every query sees at least one key, causal attention included."""
        heads = (1,) if self.H else ()
        forms = {
            "keys": (self.B, *heads, 1, self.S),
            "pairs": (*self.leading, self.T, self.S),
            "shared": (self.T, self.S),
        }
        if self.mask not in forms:
            return np.ones((self.B, *heads, 1, self.S), bool)
        mask = self.rng(1).random(forms[self.mask]) < 0.6
        mask[..., 0] = True  # the key every query may see, also under a causal mask
        return mask

    @cached_property
    def visible(self) -> Array:
        """What each query sees in the end, (..., T, S)."""
        seen = np.broadcast_to(self.allowed, (*self.leading, self.T, self.S)).copy()
        if self.causal:
            seen &= np.arange(self.S) <= np.arange(self.T)[:, None] + self.S - self.T
        return seen

    @cached_property
    def expected(self) -> dict[str, Expected]:
        """Output and weights of the reference."""
        return expected("attention", self.config, {}, self.inputs)

    def with_inputs(self, **changes: Any) -> dict[str, Any]:
        """The inputs with some arrays replaced."""
        return {**self.inputs, **changes}

    def cotangents(self) -> dict[str, Array]:
        """Random cotangents of the output."""
        shape = (*self.leading, self.T, self.d_v)
        return {"output": self.draw(self.rng(2), *shape, regime="unit")}


@st.composite
def attention_cases(
    draw: st.DrawFn,
    *,
    masks: tuple[str, ...] = MASKS,
    causal: bool | None = None,
    square: bool = False,
    min_keys: int = 1,
    min_width: int = 1,
    max_length: int = 9,
    kinds: tuple[str, ...] | None = None,
) -> AttentionCase:
    """Small cases; every size may be 1 and none need be equal. Causal cases have T <= S."""
    T = draw(st.integers(1, max_length))
    S = max(min_keys, T if square else draw(st.integers(1, max_length)))
    is_causal = draw(st.booleans()) if causal is None else causal
    return AttentionCase(
        B=draw(st.integers(1, 4)),
        H=draw(st.sampled_from((0, 0, 1, 2, 3, 4))),
        T=min(T, S) if is_causal else T,
        S=S,
        d_k=draw(st.integers(min_width, 12)),
        d_v=draw(st.integers(1, 8)),
        mask=draw(st.sampled_from(masks)),
        causal=is_causal,
        regime=draw(regimes() if kinds is None else st.sampled_from(kinds)),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
