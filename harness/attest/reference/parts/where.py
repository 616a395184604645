"""Where a computation stands in the model, and what its queries may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attest.reference.tape import Array, Var


@dataclass(frozen=True)
class Where:
    """Handed down from the model to each attention as one value.

    A part that needs to know one thing more adds a field here; the signatures that defects override stay as
    they are.
    """

    mask: Array | None = None  # (T, S) or (B or 1, T or 1, S); inside the heads it has their axis as well
    memory_mask: Array | None = None  # what cross-attention will take for its mask
    causal: bool = False
    offset: int = 0  # the position of the first query: a cache holds that many tokens before it
    layer: int | None = None  # the layer's number in its stack; None for a layer by itself
    place: str = "alone"  # alone (the operation `attention`), heads, encoder, decoder or cross
    bias: Var | None = None  # added to the scaled scores
    sinks: Var | None = None  # (H, 1, 1), or () of one head: a score that each query sees beside its keys
    positions: Array | None = None  # (B, T) of the queries; None: they count on from `offset`
    key_positions: Array | None = None  # (B, S); None: those of the queries, or from 0 on behind a cache
    table: Var | None = None  # learned: the rows of positions; relative: the numbers of a stack's buckets

    @classmethod
    def of(cls, inputs: Mapping[str, Any], place: str = "alone") -> Where:
        """From the inputs of an operation."""
        return cls(
            inputs.get("mask"),
            inputs.get("memory_mask"),
            bool(inputs.get("causal", False)),
            place=place,
            positions=inputs.get("positions"),
        )

    def but(self, **changes: Any) -> Where:
        return replace(self, **changes)

    def across(self) -> Where:
        """From a decoder layer to its cross-attention: every query may read the whole memory."""
        return self.but(mask=self.memory_mask, memory_mask=None, causal=False, place="cross", table=None)

    def queries(self, T: int) -> Array:
        """(B or 1, T): where the queries stand."""
        if self.positions is not None:
            return self.positions
        counted: Array = self.offset + np.arange(T)[None, :]
        return counted

    def keys(self, T: int, S: int) -> Array:
        """(B or 1, S): where the keys stand. The last key is that of the last query."""
        if self.key_positions is not None:
            return self.key_positions
        if self.positions is not None and T == S:
            return self.positions
        counted: Array = self.offset + T - S + np.arange(S)[None, :]
        return counted
