"""Cases of multi-head attention.

Shapes: query (B, T, D), key_value (B, S, D), D = H * d. Head i owns rows i*d to (i+1)*d of W_Q, W_K and W_V.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config
from attest.judging.cases import OperationCase, dtypes, seeds
from attest.judging.cases import regimes as any_regime
from attest.judging.regimes import hiding_mask

OPERATION = "multi_head_attention"
MASKS = ("none", "keys", "pairs", "shared", "one")
HIDING = ("keys", "pairs", "shared", "one")
# B=H is where a reshape that mixes batch and heads goes unnoticed; the others confuse positions with them.
ALIKE = ("", "", "B=H", "T=S", "B=T", "T=H")
UNEVEN = ((16, 3), (10, 4), (8, 16), (7, 2))  # d_model, num_heads
FIXED = ((2, 4, True), (3, 4, False))  # heads, their width, biases: where every config costs a build


@dataclass(frozen=True, kw_only=True)
class MultiHeadCase(OperationCase):
    """`mask`: none, keys (B, 1, S), pairs (B, T, S), shared (T, S), one (1, T, S), causal (T, S).

    `own`: the keys and values come from the query's own sequence, so S is T.
    """

    kind: ClassVar[str] = "heads"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T", "S")
    masks: ClassVar[tuple[str, ...]] = ("mask",)
    operates: ClassVar[str] = OPERATION
    settings: ClassVar[Mapping[str, str]] = {"D": "d_model", "H": "num_heads", "bias": "bias"}
    constants: ClassVar[Mapping[str, Any]] = {"dropout": 0.0}

    B: int = 1
    H: int = 1
    T: int = 1
    S: int = 1
    d: int = 1
    bias: bool = True
    mask: str = "none"
    own: bool = False

    @property
    def narrowed(self) -> dict[str, Any]:
        H, d, bias = FIXED[self.seed % len(FIXED)]
        return {"H": H, "d": d, "bias": bias}

    def settled(self) -> Self:
        return self.but(S=self.T) if self.own and self.S != self.T else self

    def enlarged(self, width: int) -> Self:
        large = super().enlarged(width)
        return large.but(d=width // large.H)

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        return ({"bias": not self.bias},)

    @property
    def D(self) -> int:  # noqa: N802
        """Width of the model."""
        return self.H * self.d

    @property
    def regimes(self) -> tuple[str, ...]:
        alike = [f"{a}={b}" for a, b in (("T", "S"), ("B", "T"), ("B", "H"), ("T", "H")) if self._equal(a, b)]
        return (*super().regimes, f"mask {self.mask}", "self" if self.own else "cross", *alike)

    def _equal(self, a: str, b: str) -> bool:
        return bool(getattr(self, a) == getattr(self, b) > 1)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """query, key_value and, where the case has one, mask."""
        rng = self.rng()
        query = self.draw(rng, self.B, self.T, self.D)
        key_value = query.copy() if self.own else self.draw(rng, self.B, self.S, self.D)
        made = {"query": query, "key_value": key_value}
        return made if self.mask == "none" else {**made, "mask": self.allowed}

    @cached_property
    def allowed(self) -> Array:
        """The mask as it is passed; every query sees at least one key."""
        forms = {
            "keys": (self.B, 1, self.S),
            "pairs": (self.B, self.T, self.S),
            "shared": (self.T, self.S),
            "one": (1, self.T, self.S),
        }
        if self.mask == "causal":
            return np.asarray(np.arange(self.S) <= np.arange(self.T)[:, None] + max(0, self.S - self.T))
        if self.mask not in forms:
            return np.ones((self.B, 1, self.S), bool)
        return hiding_mask(self.rng(2), forms[self.mask])

    @property
    def visible(self) -> Array:
        """What each query sees, (B, T, S)."""
        return np.broadcast_to(self.allowed, (self.B, self.T, self.S))

    def spoiled(self, junk: float) -> tuple[dict[str, Any], Array]:
        """Junk in about half of the keys, and which queries (B, T) see none of those."""
        key_value = self.inputs["key_value"].copy()
        chosen = self.rng(4).random((self.B, self.S)) < 0.5
        key_value[chosen] = self.in_range(junk)
        return self.with_inputs(key_value=key_value), np.asarray(~(self.visible & chosen[:, None, :]).any(-1))

    def blinded(self) -> tuple[dict[str, Any], Array]:
        """A row of the batch without any key, one blind query in the others, and which they are (B, T)."""
        mask = self.visible.copy()
        mask[0] = False
        mask[:, self.T // 2] = False
        return self.with_inputs(mask=mask), np.asarray(~mask.any(-1))

    def head(self, i: int) -> slice:
        """The features of head i."""
        return slice(i * self.d, (i + 1) * self.d)

    def plain_maps(self) -> dict[str, Array]:
        """The identity for W_Q, W_K and W_V without biases; the output map stays random."""
        one = np.eye(self.D, dtype=self.parameters["query.weight"].dtype)
        maps = {f"{name}.weight": one for name in ("query", "key", "value")}
        maps |= {f"{n}.bias": np.zeros_like(one[0]) for n in ("query", "key", "value") if self.bias}
        return {**self.parameters, **maps}

    def constant_values(self) -> dict[str, Array]:
        """Parameters whose scores are zero and whose values, for inputs of ones, are one."""
        made = {name: np.zeros_like(x) for name, x in self.parameters.items()}
        made["value.weight"][:, 0] = 1.0  # a bias is not everybody's
        made["output.weight"] = np.eye(*made["output.weight"].shape, dtype=made["output.weight"].dtype)
        return made

    def without_head(self, i: int, parameters: dict[str, Array]) -> dict[str, Array]:
        """The same weights with the values of one head made zero."""
        changed = {n: x.copy() for n, x in parameters.items() if n.startswith("value.")}
        for x in changed.values():
            x[self.head(i)] = 0.0
        return {**parameters, **changed}

    def open_heads(self, parameters: dict[str, Array]) -> dict[str, Array]:
        """The same weights with the identity as output map, so that the output shows each head's part."""
        one = np.eye(self.D, dtype=parameters["output.weight"].dtype)
        bias = {"output.bias": np.zeros_like(one[0])} if self.bias else {}
        return {**parameters, "output.weight": one, **bias}

    def moving_head(self, i: int) -> dict[str, Array]:
        """The weights with the query map of one head changed at random."""
        weight = self.parameters["query.weight"].copy()
        weight[self.head(i)] += self.draw(self.rng(5), self.d, self.D, regime="unit")
        return {**self.parameters, "query.weight": weight}

    def stored(self, value: Array) -> Array:
        """A loaded value as held in this dtype; bfloat16 is the upper half of a float32."""
        if self.dtype == "float16":
            return value.astype(np.float16).astype(np.float32)
        if self.dtype != "bfloat16":
            return value
        bits = value.astype(np.float32).view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16
        return rounded.astype(np.uint32).view(np.float32)


def uneven_configs(impl: JudgedImplementation) -> dict[str, Config]:
    """What is wrong: configs whose heads do not divide the width, otherwise like one that is on offer."""
    right = MultiHeadCase(H=2, d=4, dtype=impl.dtypes[0]).fitted(impl).config
    return {f"d_model={w} with num_heads={h}": right.but(d_model=w, num_heads=h) for w, h in UNEVEN}


# Rows beyond groups of 8, 16 and 32, each with padding of its own.
MANY_ROWS = MultiHeadCase(B=33, H=2, T=4, S=6, d=4, mask="keys", dtype="float64")


@st.composite
def multi_head_cases(
    draw: st.DrawFn,
    *,
    masks: tuple[str, ...] = MASKS,
    own: bool | None = None,
    min_heads: int = 1,
    min_batch: int = 1,
    min_keys: int = 1,
    min_width: int = 1,
    max_length: int = 7,
    regimes: tuple[str, ...] | None = None,
    equal: tuple[str, ...] = ALIKE,
) -> MultiHeadCase:
    """Small cases; every size may be 1, and some are made equal on purpose."""
    alike = draw(st.sampled_from(equal))
    H = draw(st.integers(min_heads, 4))
    B = H if alike == "B=H" and min_batch <= H else draw(st.integers(min_batch, 4))
    T = {"B=T": B, "T=H": H}.get(alike) or draw(st.integers(1, max_length))
    is_own = draw(st.booleans()) if own is None else own
    S = T if is_own or alike == "T=S" else draw(st.integers(min_keys, max_length))
    d = draw(st.integers(1, 6))
    return MultiHeadCase(
        B=B,
        H=H,
        T=max(T, min_keys) if is_own else T,
        S=max(S, min_keys),
        d=max(d, -(-min_width // H)),
        bias=draw(st.booleans()),
        mask=draw(st.sampled_from(masks)),
        own=is_own,
        regime=draw(any_regime() if regimes is None else st.sampled_from(regimes)),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
