"""Cases of the functions that make masks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.cases import Case, seeds
from attest.judging.regimes import POSITIONS, SIZES, WIDTHS


@dataclass(frozen=True, kw_only=True)
class MaskCase(Case):
    """A batch of right-padded ids."""

    kind: ClassVar[str] = "masks"

    B: int = 1
    S: int = 1
    V: int = 8
    pad_id: int = 0

    def enlarged(self, width: int) -> Self:
        """A longer row of a larger vocabulary; every other pad id is beyond the range of eight bits."""
        pad_id = self.pad_id + (256 if width == WIDTHS[-1] else 0)
        return self.but(B=4, S=POSITIONS, V=SIZES["source_vocab"], pad_id=pad_id)

    @cached_property
    def row_lengths(self) -> Array:
        """Real length of each row, 0 to S."""
        return self.rng().integers(0, self.S + 1, self.B).astype(np.int64)

    @cached_property
    def ids(self) -> Array:
        """Ids below V, padded with pad_id after each row's length."""
        rng = self.rng(1)
        others = np.array([i for i in range(self.V) if i != self.pad_id], np.int64)
        ids = others[rng.integers(0, len(others), (self.B, self.S))]
        ids[np.arange(self.S) >= self.row_lengths[:, None]] = self.pad_id
        return ids

    @cached_property
    def scattered(self) -> Array:
        """The same ids in another order, so that pads stand anywhere."""
        return self.rng(2).permuted(self.ids, axis=1)


def mask_cases() -> st.SearchStrategy[MaskCase]:
    """Every pad id of a small vocabulary."""
    return st.builds(
        MaskCase, B=st.integers(1, 4), S=st.integers(1, 9), pad_id=st.integers(0, 7), seed=seeds()
    )
