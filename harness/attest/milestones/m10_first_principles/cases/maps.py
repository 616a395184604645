"""Cases of attention maps: a small model with two layers each, and ids with padding.

Shapes: source (B, S), target (B, T).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Config
from attest.judging.cases import OperationCase, dtypes, seeds

VOCAB = 9
MODEL = Config(
    d_model=8,
    num_heads=2,
    d_ff=12,
    source_vocab=VOCAB,
    target_vocab=VOCAB,
    max_len=8,
    num_encoder_layers=2,
    num_decoder_layers=2,
    dropout=0.5,
)


@dataclass(frozen=True, kw_only=True)
class MapsCase(OperationCase):
    """The last `pads` columns of the last row are padding, on both sides."""

    kind: ClassVar[str] = "maps"
    operates: ClassVar[str] = "transformer"
    lengths: ClassVar[tuple[str, ...]] = ("B", "S", "T")

    B: int = 2
    S: int = 4
    T: int = 3
    pads: int = 0

    @property
    def config(self) -> Config:
        return MODEL.but(dtype=self.dtype)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        return self._ids(0)

    @property
    def other_ids(self) -> dict[str, Any]:
        """Of the same shapes."""
        return self._ids(7)

    def _ids(self, salt: int) -> dict[str, Any]:
        rng = self.rng(salt)
        made = {
            name: rng.integers(3, VOCAB, (self.B, n)) for name, n in (("source", self.S), ("target", self.T))
        }
        for ids in made.values():
            ids[-1, max(1, ids.shape[1] - self.pads) :] = MODEL.pad_id
        return {name: ids.astype(np.int64) for name, ids in made.items()}


def maps_cases() -> st.SearchStrategy[MapsCase]:
    """Lengths that differ, with and without padding."""
    return st.builds(
        MapsCase,
        B=st.integers(1, 3),
        S=st.integers(2, 5),
        T=st.integers(2, 4),
        pads=st.integers(0, 2),
        dtype=dtypes(),
        seed=seeds(),
    )
