"""Cases of scaled dot-product attention.

Shapes: q (B, T, d_k), k (B, S, d_k), v (B, S, d_v), with a head axis after B where H > 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent
from attest.contract import Array
from attest.judging.cases import OperationCase, dtypes, seeds
from attest.judging.cases import regimes as any_regime
from attest.judging.regimes import hiding_mask

MASKS = ("none", "keys", "pairs", "shared")
HIDING = ("keys", "pairs", "shared")
FORMS = (*HIDING, "rows", "heads", "narrow")
# Axes of equal length: code that confuses two of them is right for every other shape. Drawn apart, B, H, T
# and S seldom agree, so a share of the cases makes them.
ALIKE = ("", "", "T=S", "B=T", "B=H", "B=T=S")
FIXED = {"d_k": 12, "d_v": 5}  # where every config costs a build
LONG = (16, 17, 31, 32, 33, 64, 65)  # around the blocks of fused kernels
# A query sees nothing because its row of the mask is empty, because its sentence is all padding, or because
# causal attention has more queries than keys.
BLIND = ("mask", "length", "causal")


@dataclass(frozen=True, kw_only=True)
class AttentionCase(OperationCase):
    """`mask`: none, keys (B, 1, S), pairs (..., T, S), shared (T, S), rows (B, T, S), heads (H, 1, S),
    narrow (T, 1). Where there are heads, keys and rows have a head axis of 1, heads a batch axis of 1.
    """

    kind: ClassVar[str] = "attention"
    lengths: ClassVar[tuple[str, ...]] = ("B", "H", "T", "S")
    masks: ClassVar[tuple[str, ...]] = ("mask",)
    operates: ClassVar[str] = "attention"
    stands_for: ClassVar[Mapping[str, str]] = {"d_k": "d_model", "d_v": "d_model"}

    B: int = 1
    H: int = 0
    T: int = 1
    S: int = 1
    d_k: int = 1
    d_v: int = 1
    mask: str = "none"
    causal: bool = False
    copies: int = 1  # how many times as many features `widened_features` gives

    @property
    def hides(self) -> bool:
        """Under a causal mask the first query sees itself, so no key is hidden from all."""
        return self.mask in HIDING and not self.causal

    @property
    def narrowed(self) -> dict[str, Any]:
        return {**FIXED, "copies": min(self.copies, 2)}

    @property
    def leading(self) -> tuple[int, ...]:
        """(B,) or (B, H)."""
        return (self.B, self.H) if self.H else (self.B,)

    @property
    def regimes(self) -> tuple[str, ...]:
        alike = [f"{a}={b}" for a, b in (("T", "S"), ("B", "T"), ("B", "H")) if self._equal(a, b)]
        return (*super().regimes, f"mask {self.mask}", *(["causal"] if self.causal else []), *alike)

    def _equal(self, a: str, b: str) -> bool:
        return bool(getattr(self, a) == getattr(self, b) > 1)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """q, k, v and, where the case has them, mask and causal."""
        rng = self.rng()
        # Scores of about 16: softmax is nearly one-hot, and its gradient the difference of like numbers.
        gain = np.asarray(4.0 if self.regime == "saturated" else 1.0, np.float32)
        q = self.draw(rng, *self.leading, self.T, self.d_k) * gain
        k = self.draw(rng, *self.leading, self.S, self.d_k) * gain
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
            "rows": (self.B, *heads, self.T, self.S),
            "heads": (1, *((self.H,) if self.H else ()), 1, self.S),
        }
        if self.mask == "narrow":
            return np.ones((self.T, 1), bool)
        if self.mask not in forms:
            return np.ones((self.B, *heads, 1, self.S), bool)
        return hiding_mask(self.rng(1), forms[self.mask], self.reach(forms[self.mask][-2]))

    def reach(self, queries: int) -> Any:
        """The last key that each of so many rows of a mask may see, also under a causal mask."""
        return np.arange(queries) + self.S - self.T if self.causal else self.S - 1

    @cached_property
    def visible(self) -> Array:
        """What each query sees in the end, (..., T, S)."""
        seen = np.broadcast_to(self.allowed, (*self.leading, self.T, self.S)).copy()
        if self.causal:
            seen &= np.arange(self.S) <= np.arange(self.T)[:, None] + self.S - self.T
        return seen

    @property
    def unseen(self) -> Array:
        """Keys that no query sees, (..., S)."""
        return np.asarray(~self.visible.any(-2))

    def with_scores_of(self, size: float) -> dict[str, Any]:
        """The inputs with q and k enlarged until scores are about this large."""
        q, k = self.inputs["q"], self.inputs["k"]
        gain = math.sqrt(abs(size))
        return self.with_inputs(
            q=(q * gain).astype(q.dtype), k=(k * math.copysign(gain, size)).astype(k.dtype)
        )

    def with_scores_below(self, depth: float) -> dict[str, Any]:
        """The inputs with every score below -depth."""
        q, k = self.inputs["q"], self.inputs["k"]
        # Keys stay a little apart, so that the visible weights are not simply equal.
        near = (0.01 * k - math.sqrt(depth)).astype(k.dtype)
        return self.with_inputs(q=np.full_like(q, math.sqrt(depth)), k=np.minimum(near, -math.sqrt(depth)))

    def widened_features(self, way: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """q and k with c times as many features, and the q of the old width that has the same scores."""
        q, k, copies = self.inputs["q"], self.inputs["k"], self.copies
        more = 1 if way == "tiled" else 0
        wide = {n: np.concatenate([x, *[x * more] * (copies - 1)], -1) for n, x in (("q", q), ("k", k))}
        gain = math.sqrt(copies) if way == "tiled" else 1 / math.sqrt(copies)
        return self.with_inputs(**wide), self.with_inputs(q=(q * gain).astype(q.dtype))

    def with_particular(self, which: str) -> dict[str, Any]:
        """The inputs with zeros, with keys that are all the first, or with values beyond half precision."""
        q, k, v = (self.inputs[name] for name in "qkv")
        changed = {
            "zero queries": {"q": np.zeros_like(q)},
            "zero keys": {"k": np.zeros_like(k)},
            "zero values": {"v": np.zeros_like(v)},
            # 65504 is the largest float16: code that passes through half precision gives infinity.
            "values beyond 65504": {"v": (v + self.in_range(1e5)).astype(v.dtype)},
            "equal keys": {"k": np.repeat(k[..., :1, :], self.S, -2)},
        }
        return self.with_inputs(**changed[which])

    def other_ranks(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """One sequence without leading axes; the case twice along an axis after the batch, with heads.

        Of a case with no mask or one (T, S), which fits any rank.
        """
        first = {n: self.inputs[n].reshape(-1, *self.inputs[n].shape[-2:])[0] for n in "qkv"}
        heads = {n: x if self.H else x[:, None] for n, x in ((n, self.inputs[n]) for n in "qkv")}
        twice = {n: np.stack([x, x if n == "k" else -x], axis=1) for n, x in heads.items()}
        mask = np.ones((self.T, self.S), bool) if self.mask == "all" else self.inputs.get("mask")
        return (
            ("inputs of rank 2", self.with_inputs(**first, mask=mask)),
            ("inputs of rank 5", self.with_inputs(**twice, mask=mask)),
        )

    def spoiled(self, junk: float) -> dict[str, Any]:
        """The inputs with junk in every key and value that no query sees."""
        junk = self.in_range(junk)
        k, v = self.inputs["k"].copy(), self.inputs["v"].copy()
        # Junk of one sign alone could leave the maximum of a row, and so the softmax, as it was.
        signs = np.where(self.rng(3).random(k.shape) < 0.5, -1.0, 1.0)
        with np.errstate(all="ignore"):
            k[self.unseen] = (junk * signs)[self.unseen]
        v[self.unseen] = junk
        return self.with_inputs(k=k, v=v)

    def spoiled_for_some(self, junk: float) -> tuple[dict[str, Any], Array]:
        """Junk in about half of the keys and values, and which queries (..., T) see none of those."""
        junk = self.in_range(junk)
        k, v = self.inputs["k"].copy(), self.inputs["v"].copy()
        chosen = self.rng(4).random(k.shape[:-1]) < 0.5
        k[chosen], v[chosen] = junk, -junk
        return self.with_inputs(k=k, v=v), np.asarray(~(self.visible & chosen[..., None, :]).any(-1))

    def blinded(self, way: str) -> tuple[dict[str, Any], Array]:
        """Inputs with queries that see nothing, and which they are, (..., T).

        By a mask over one query, by a row of length zero, or by causal attention with more queries than keys.
        """
        shape = (*self.leading, self.T, self.S)
        if way == "causal":
            keys = max(1, self.T // 2)
            k, v = self.inputs["k"][..., :keys, :], self.inputs["v"][..., :keys, :]
            visible = np.arange(k.shape[-2]) <= np.arange(self.T)[:, None] + k.shape[-2] - self.T
            inputs = self.with_inputs(k=k, v=v, causal=True, mask=None)
            return inputs, np.broadcast_to(~visible.any(-1), shape[:-1])
        mask = np.broadcast_to(self.allowed, shape).copy()
        if way == "length":
            mask[0] = False
        else:
            mask[..., self.T // 2, :] = False
        return self.with_inputs(mask=mask, causal=None), np.asarray(~mask.any(-1))

    def sizes(self, shape: str) -> tuple[int, ...]:
        """`...` is (B,) or (B, H); d is the width of q and k."""
        named = {"...": self.leading, "d": (self.d_k,)}
        return tuple(
            n for word in shape.split() for n in (named[word] if word in named else (getattr(self, word),))
        )


def weights_of(component: JudgedComponent, inputs: dict[str, Any]) -> Array:
    """The weights, read off with V = identity where the component returns none."""
    seen = component(**inputs)
    if "weights" in seen:
        return seen["weights"]
    k = inputs["k"]
    identity = np.broadcast_to(np.eye(k.shape[-2], dtype=k.dtype), (*k.shape[:-1], k.shape[-2]))
    return component(**{**inputs, "v": identity})["output"]


@st.composite
def attention_cases(
    draw: st.DrawFn,
    *,
    masks: tuple[str, ...] = MASKS,
    causal: bool | None = None,
    square: bool = False,
    min_keys: int = 1,
    min_width: int = 1,
    min_batch: int = 1,
    max_length: int = 9,
    regimes: tuple[str, ...] | None = None,
    equal: tuple[str, ...] = ALIKE,
    copies: tuple[int, int] = (1, 1),
) -> AttentionCase:
    """Small cases; every size may be 1, and some are made equal on purpose. Causal cases have T <= S."""
    alike = draw(st.sampled_from(equal))
    # 0 heads is (B, T, d) without a head axis, the form of the paper's section 3.2.1.
    heads = st.integers(min_batch, 4) if alike == "B=H" else st.sampled_from((0, 0, 1, 2, 3, 4))
    H = draw(heads)
    T = draw(st.integers(1, max_length))
    S = draw(st.integers(min_keys, max_length))
    B = H if alike == "B=H" else draw(st.integers(min_batch, 4))
    T = B if alike.startswith("B=T") else T
    S = max(min_keys, T if square or alike.endswith("T=S") or alike == "B=T=S" else S)
    is_causal = draw(st.booleans()) if causal is None else causal
    return AttentionCase(
        B=B,
        H=H,
        T=S if square else min(T, S) if is_causal else T,
        S=S,
        d_k=draw(st.integers(min_width, 12)),
        d_v=draw(st.integers(1, 8)),
        mask=draw(st.sampled_from(masks)),
        causal=is_causal,
        copies=draw(st.integers(*copies)),
        regime=draw(any_regime() if regimes is None else st.sampled_from(regimes)),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
