"""What the cases of attention between heads of their own share.

Shapes: q (B, H, T, d), k (B, H, S, d), v (B, H, S, d_v).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.cases import dtypes, seeds
from attest.milestones.m08_attention_variants.cases.asked import IfOffered

ALIKE = ("", "", "T=S", "B=H", "H=T", "d=T")
PRIMES = {"B": 2, "H": 3, "T": 5, "S": 7, "d": 11, "d_v": 13}


@dataclass(frozen=True, kw_only=True)
class HeadsApartCase(IfOffered):
    """Sizes, and whether attention is causal."""

    kind: ClassVar[str] = ""
    lengths: ClassVar[tuple[str, ...]] = ("B", "H", "T", "S")

    B: int = 1
    H: int = 1
    T: int = 1
    S: int = 1
    d: int = 4
    d_v: int = 4
    causal: bool = False

    @property
    def regimes(self) -> tuple[str, ...]:
        sizes = {"T": self.T, "S": self.S, "B": self.B, "H": self.H, "d": self.d}
        alike = [
            f"{a}={b}" for a, b in (("T", "S"), ("B", "H"), ("H", "T"), ("d", "T")) if sizes[a] == sizes[b]
        ]
        return (*super().regimes, *(["causal"] if self.causal else []), *alike)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        return {**super().inputs, **({"causal": True} if self.causal else {})}

    @cached_property
    def triangle(self) -> Array:
        """(T, S): what causal attention lets a query see, everything where it is not causal."""
        reach = np.arange(self.T)[:, None] + (self.S - self.T if self.causal else self.S)
        return np.asarray(np.arange(self.S)[None, :] <= reach)

    @property
    def visible(self) -> Array:
        """(B, H, T, S): what each query sees in the end."""
        raise NotImplementedError


@st.composite
def sizes(draw: st.DrawFn, *, longest: int = 9, causal: bool | None = None) -> dict[str, Any]:
    """Fields of a case: distinct primes, sizes that coincide, or any. Causal cases have T <= S."""
    if draw(st.integers(0, 5)) == 5:
        made: dict[str, Any] = dict(PRIMES)
    else:
        made = {
            "B": draw(st.integers(1, 3)),
            "H": draw(st.integers(1, 4)),
            "T": draw(st.integers(1, longest)),
            "S": draw(st.integers(1, longest)),
            "d": draw(st.integers(1, 8)),
            "d_v": draw(st.integers(1, 6)),
        }
        made |= _alike(draw(st.sampled_from(ALIKE)), made)
    made["causal"] = draw(st.booleans()) if causal is None else causal
    made["T"] = min(made["T"], made["S"]) if made["causal"] else made["T"]
    return {**made, "dtype": draw(dtypes()), "seed": draw(seeds())}


def _alike(pair: str, made: dict[str, Any]) -> dict[str, Any]:
    one, _, other = pair.partition("=")
    return {one: made[other]} if pair else {}
