"""Cases of whole operations for the law of the transpose: layers, stacks and the model.

Shapes: B batch, T and S lengths, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array, Config, float_dtype
from attest.judging.cases import OperationCase, seeds
from attest.judging.inputs import inputs_of
from attest.milestones.m10_first_principles.cases.layers import NORMS, OWN

WHOLE = (
    "attention",
    "multi_head_attention",
    "feed_forward",
    "token_embedding",
    "encoder_layer",
    "decoder_layer",
    "transformer",
)
SMALL = Config(
    d_model=8,
    num_heads=2,
    d_ff=12,
    source_vocab=9,
    target_vocab=7,
    max_len=16,
    num_encoder_layers=1,
    num_decoder_layers=1,
)
NOISY = ("encoder_layer", "decoder_layer")  # their sublayers have dropout


@dataclass(frozen=True, kw_only=True)
class TransposeCase(OperationCase):
    """An operation, its inputs by its record, and directions to move everything in."""

    kind: ClassVar[str] = "transpose"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T", "S")

    part: str = "linear"
    B: int = 2
    T: int = 3
    S: int = 4
    dropout: float = 0.0

    @property
    def operation(self) -> str:
        return self.part

    @property
    def config(self) -> Config:
        return SMALL.but(dropout=self.dropout, dtype=self.dtype)

    @property
    def regimes(self) -> tuple[str, ...]:
        return (self.part, *super().regimes)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        lengths = {"B": self.B, "T": self.T, "S": self.S}
        return inputs_of(self.record, self.config, lengths, self.rng())

    def like(self, arrays: dict[str, Any], salt: int) -> dict[str, Array]:
        """Random numbers of the same shapes, for the arrays that are floating."""
        rng = self.rng(salt)
        dtype = float_dtype(self.dtype)
        return {
            name: np.asarray(rng.standard_normal(np.shape(x))).astype(dtype)
            for name, x in arrays.items()
            if np.asarray(x).dtype.kind == "f"
        }


def transpose_cases(
    parts: tuple[str, ...] = (*OWN, *NORMS, *WHOLE), dropout: float = 0.0
) -> st.SearchStrategy[TransposeCase]:
    """Every operation with gradients, a batch of 1 included."""
    return st.builds(
        TransposeCase,
        part=st.sampled_from(parts),
        B=st.integers(1, 3),
        T=st.integers(1, 4),
        S=st.integers(1, 4),
        dropout=st.just(dropout),
        dtype=st.just("float64"),
        seed=seeds(),
    )
