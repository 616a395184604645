"""Cases of models with an encoder alone: masked tokens are filled in, or a sequence is classified.

Shapes: ids and segments (B, T), logits (B, T, V) or (B, C).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_shape
from attest.contract import Array
from attest.judging.cases import dtypes, picks, seeds
from attest.judging.options import options_of
from attest.milestones.m09_models_of_today.cases.language_models import (
    APART,
    COINCIDENT,
    SPECIALS,
    LanguageModelCase,
)

MASK = 4  # none of SPECIALS
ENCODER_PADDINGS = ("right", "left", "both", "none")
BERT = "positions:learned,activation:gelu,embedding_norm:true,segments:2,scale_embeddings:false,tie:true"
SMOOTH = "activation:gelu"
TIED = "tie:true,scale_embeddings:true"


@dataclass(frozen=True, kw_only=True)
class EncoderCase(LanguageModelCase):
    """Random weights and ids; with padding "both" a row has it before and behind its tokens."""

    kind: ClassVar[str] = "masked_language_model"
    operates: ClassVar[str] = "masked_language_model"
    settings: ClassVar[Mapping[str, str]] = {
        "D": "d_model",
        "H": "num_heads",
        "d_ff": "d_ff",
        "N": "num_encoder_layers",
        "V": "source_vocab",
        "room": "max_len",
    }
    constants: ClassVar[Mapping[str, Any]] = {"dropout": 0.3, "mask_id": MASK}
    free: ClassVar[tuple[str, ...]] = options_of("masked_language_model")

    def fitted(self, impl: JudgedImplementation) -> Self:
        """Padding stands where the implementation takes it."""
        case = super(LanguageModelCase, self).fitted(impl)
        needed = {"left", "right"} if case.padding == "both" else {case.padding}
        if needed <= set(impl.claims.padding):
            return case
        return case.but(padding="right" if "right" in impl.claims.padding else "none")

    def enlarged(self, width: int) -> Self:
        """With GELU: of so many features one lies within rounding of zero, where the slope of ReLU jumps."""
        large = super().enlarged(width)
        return large.but(wants=self.wants or SMOOTH) if self.pick else large

    @cached_property
    def ids(self) -> Array:
        """(B, T); every row but the first is as long as was drawn, and is moved by as much as was drawn."""
        rng, pad = self.rng(2), self.pad
        words = np.array([i for i in range(self.V) if i != pad], np.int64)
        ids: Array = words[rng.integers(0, len(words), (self.B, self.T))]
        lengths = rng.integers(1, self.T + 1, self.B)
        lengths[0] = self.T if self.B > 1 else lengths[0]
        room = self.T - lengths
        first = {"left": room, "both": rng.integers(0, room + 1)}.get(self.padding, 0 * room)[:, None]
        places = np.arange(self.T)
        shown = (places >= first) & (places < first + lengths[:, None])
        return ids if self.padding == "none" else np.where(shown, ids, pad)

    @property
    def pad(self) -> int:
        return SPECIALS[self.special][0]

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Segments are given to three of four models that embed them; left out, all are of kind 0."""
        kinds = self.config.segments
        if not kinds or self.seed % 4 == 0:
            return {"ids": self.ids}
        return {"ids": self.ids, "segments": self.rng(3).integers(0, kinds, (self.B, self.T))}

    def places(self) -> list[tuple[int, int]]:
        """The real tokens of one row: the row that was drawn."""
        row = self.seed % self.B
        return [(row, int(place)) for place in np.flatnonzero(self.real[row])]

    def with_another(self, row: int, place: int) -> Array:
        """The ids with another real one there."""
        words = [i for i in range(self.V) if i not in (self.pad, self.ids[row, place])]
        ids = self.ids.copy()
        ids[row, place] = words[(self.seed + place) % len(words)]
        return ids

    def row(self, row: int) -> dict[str, Array]:
        """One row without its padding, as a batch of the least size that is allowed."""
        kept = self.real[row]
        return {name: x[[row] * self.least][:, kept] for name, x in self.inputs.items()}

    def with_padding(self, before: int, behind: int) -> dict[str, Array]:
        """The inputs with more columns of padding."""
        room = ((0, 0), (before, behind))
        fill = {"ids": self.pad, "segments": 0}
        return {name: np.pad(x, room, constant_values=fill[name]) for name, x in self.inputs.items()}

    def own_logits(self, logits: Array, before: int) -> Array:
        """Those of its own columns, of inputs with so many columns of padding before them."""
        return logits[:, before : before + self.T]

    def with_other_padding(self) -> dict[str, Array]:
        """The parameters with another row of the embedding for padding; a tied one also scores it."""
        table = self.parameters["embedding.weight"].copy()
        table[self.pad] = self.draw(self.rng(8), self.D, regime="large")
        return {**self.parameters, "embedding.weight": table}


@dataclass(frozen=True, kw_only=True)
class ClassifierCase(EncoderCase):
    """The same with C classes for a whole row."""

    kind: ClassVar[str] = "classifier"
    operates: ClassVar[str] = "classifier"
    settings: ClassVar[Mapping[str, str]] = {**EncoderCase.settings, "C": "num_classes"}
    free: ClassVar[tuple[str, ...]] = options_of("classifier")

    C: int = 2

    @property
    def narrowed(self) -> dict[str, Any]:
        return {**super().narrowed, "C": 3}

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, f"pooling {self.config.pooling}")

    def settled(self) -> Self:
        return super().settled().but(C=max(self.C, 2))

    def specified(self, seen: Array, other: Array) -> Array:
        """Every logit counts."""
        expect_shape(seen, other.shape, "logits")
        return seen

    def own_logits(self, logits: Array, before: int) -> Array:
        """A row has one answer."""
        return logits

    def cotangents(self) -> dict[str, Array]:
        return {"logits": self.draw(self.rng(11), self.B, self.C, regime="unit")}


def _drawn(
    draw: st.DrawFn, wants: tuple[str, ...], paddings: tuple[str, ...], min_length: int
) -> dict[str, Any]:
    """Sizes that coincide and sizes of which no two are equal, in turn."""
    B, T, H, d, d_ff, N, V = draw(st.sampled_from((*COINCIDENT, *APART)))
    T = max(min_length, draw(st.sampled_from((T, T, T, 1))))
    sizes = {"B": B, "T": T, "D": H * d, "H": H, "d_ff": d_ff, "N": N, "V": max(V, 6)}
    return {
        **sizes,
        "special": draw(st.integers(0, len(SPECIALS) - 1)),
        "padding": draw(st.sampled_from(paddings)),
        "regime": draw(st.sampled_from(("init", "unit", "saturated"))),
        "dtype": draw(dtypes()),
        "seed": draw(seeds()),
        "pick": draw(picks()),
        "wants": draw(st.sampled_from(wants)),
    }


@st.composite
def encoder_cases(
    draw: st.DrawFn,
    *,
    wants: tuple[str, ...] = ("",),
    paddings: tuple[str, ...] = ENCODER_PADDINGS,
    min_length: int = 1,
) -> EncoderCase:
    """Of the masked language model."""
    return EncoderCase(**_drawn(draw, wants, paddings, min_length))


@st.composite
def classifier_cases(
    draw: st.DrawFn,
    *,
    wants: tuple[str, ...] = ("",),
    paddings: tuple[str, ...] = ENCODER_PADDINGS,
    min_length: int = 1,
) -> ClassifierCase:
    """As many classes as features or rows, or a number of their own."""
    fields = _drawn(draw, wants, paddings, min_length)
    classes = draw(st.sampled_from((fields["D"], fields["B"], 2, 3)))
    return ClassifierCase(**fields, C=max(classes, 2))
