"""Cases of whole operations for the law of the transpose: layers, stacks and the model.

Shapes: B batch, T and S lengths, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config, float_dtype
from attest.judging.cases import OperationCase, seeds
from attest.judging.inputs import inputs_of
from attest.milestones.m10_first_principles.cases.layers import ACTIVATIONS, NORMS, OWN

WHOLE = (
    "attention",
    "multi_head_attention",
    "feed_forward",
    "token_embedding",
    "encoder_layer",
    "decoder_layer",
    "transformer",
    "rotary",
    "self_attention",
    "language_model",
)
# Two query heads read one key head, and both are turned: what is shared and what is turned back shows.
OF_TODAY = {"positions": "rotary", "num_kv_heads": 1}
TURNED = frozenset({"self_attention", "language_model"})
PARTS = (*OWN, *NORMS, *WHOLE)
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
    activation: str = "relu"

    @property
    def operation(self) -> str:
        return self.part

    @property
    def config(self) -> Config:
        own = OF_TODAY if self.part in TURNED else {}
        return SMALL.but(dropout=self.dropout, activation=self.activation, dtype=self.dtype, **own)

    @property
    def regimes(self) -> tuple[str, ...]:
        return (self.part, *super().regimes)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        lengths = {"B": self.B, "T": self.T, "S": self.S}
        return inputs_of(self.record, self.config, lengths, self.rng())

    def each(self, impl: JudgedImplementation, parts: tuple[str, ...] = PARTS) -> Iterator[Self]:
        """This case for every one of these operations that is offered, in the most exact dtype."""
        for part, activation in parts_with_activations(parts):
            case = self.but(part=part, activation=activation).sharpest(impl)
            if impl.offers(part) and impl.can_build(part, case.config):
                yield case

    def like(self, arrays: dict[str, Any], salt: int) -> dict[str, Array]:
        """Random numbers of the same shapes, for the arrays that are floating."""
        rng = self.rng(salt)
        dtype = float_dtype(self.dtype)
        return {
            name: np.asarray(rng.standard_normal(np.shape(x))).astype(dtype)
            for name, x in arrays.items()
            if np.asarray(x).dtype.kind == "f"
        }


def parts_with_activations(parts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each operation; the one that is an activation with each of them."""
    for part in parts:
        for activation in ACTIVATIONS if part == "activation" else ("relu",):
            yield part, activation


def transpose_cases(*, dropout: float = 0.0) -> st.SearchStrategy[TransposeCase]:
    """Sizes and a seed, a batch of 1 included; `each` gives every operation."""
    return st.builds(
        TransposeCase,
        B=st.integers(1, 3),
        T=st.integers(1, 4),
        S=st.integers(1, 4),
        dropout=st.just(dropout),
        dtype=st.just("float64"),
        seed=seeds(),
    )
