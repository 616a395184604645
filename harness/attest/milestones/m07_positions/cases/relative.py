"""Cases of the buckets of distances and of the bias they give.

Shapes: positions (B, T), key_positions (B, S), table (buckets, H), bias (B, H, T, S).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.cases import Case, OperationCase, dtypes, picks, seeds
from attest.milestones.m07_positions.cases.rotary import LENGTHS

BUCKETS = (32, 8, 16, 64, 10)
DISTANCES = (128, 16, 20, 64, 512)
OFFSETS = np.arange(-300, 301)


@dataclass(frozen=True, kw_only=True)
class BucketCase(Case):
    """One setting of the buckets; the offsets are all from -300 to 300, as a table of T rows."""

    kind: ClassVar[str] = "buckets"

    buckets: int = 32
    distance: int = 128
    causal: bool = False
    T: int = 1

    @property
    def regimes(self) -> tuple[str, ...]:
        return ("causal" if self.causal else "two sides", f"{self.buckets} buckets up to {self.distance}")

    @property
    def offsets(self) -> Array:
        """(T, S): each offset in every row, in another order."""
        return np.stack([self.rng(row).permutation(OFFSETS) for row in range(self.T)])


def bucket_cases() -> st.SearchStrategy[BucketCase]:
    """8 to 64 buckets, distances from 16 to 512, one side and both."""
    return st.builds(
        BucketCase,
        buckets=st.sampled_from(BUCKETS),
        distance=st.sampled_from(DISTANCES),
        causal=st.booleans(),
        T=st.integers(1, 3),
        seed=seeds(),
    ).filter(lambda case: case.distance > case.buckets // 2)


@dataclass(frozen=True, kw_only=True)
class BiasCase(OperationCase):
    """`at`: tail (the queries are the last of the keys, as behind a cache), apart (drawn one by one)."""

    kind: ClassVar[str] = "relative_bias"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T", "S")
    operates: ClassVar[str] = "relative_bias"
    settings: ClassVar[Mapping[str, str]] = {"H": "num_heads"}
    constants: ClassVar[Mapping[str, Any]] = {"d_model": 60}
    free: ClassVar[tuple[str, ...]] = ("relative_buckets", "relative_distance")

    B: int = 1
    H: int = 1
    T: int = 2
    S: int = 3
    causal: bool = False
    at: str = "tail"

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"H": 2}

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, f"positions {self.at}", "causal" if self.causal else "two sides")

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Distances up to 300 either way, so that far buckets are met too."""
        rng = self.rng(2)
        if self.at == "tail":
            longest = max(self.T, self.S)
            row: Array = rng.integers(0, 9, (self.B, 1)) + rng.choice((1, 7), (self.B, longest)).cumsum(1)
            queries, keys = row[:, longest - self.T :], row[:, longest - self.S :]
        else:
            queries, keys = (rng.integers(0, 300, (self.B, n)) for n in (self.T, self.S))
        causal = {"causal": True} if self.causal else {}
        return {"positions": queries, "key_positions": keys, **causal}


def bias_cases() -> st.SearchStrategy[BiasCase]:
    """More keys than queries, fewer, and as many."""
    return st.builds(
        BiasCase,
        B=st.integers(1, 3),
        H=st.sampled_from((2, 1, 3, 4, 5)),
        T=st.sampled_from(LENGTHS),
        S=st.sampled_from((3, 2, 5, 8, 11, 4)),
        causal=st.booleans(),
        at=st.sampled_from(("tail", "apart")),
        pick=picks(),
        dtype=dtypes(),
        seed=seeds(),
    )
