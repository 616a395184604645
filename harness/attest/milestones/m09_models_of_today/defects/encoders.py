"""Defects of masked language models: what a token sees, where it stands, and the head.

Shapes: ids and segments (B, T), x (B, T, D).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.models.encoder_only import EncoderOnly
from attest.reference.parts.embedding import Embedding, Logits
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf

MODELS = ("masked_language_model", "classifier")


class _Placed(EncoderOnly):
    """The encoder with what its tokens see, or where they stand, to be replaced."""

    def place(self, ids: Array, where: Where) -> Where:
        return where

    def encode(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        where = self.place(ids, self.parts.language_model.place(ids).but(place="encoder"))
        x = self.parts.embedding.of_model(ids, p, where, segments)
        return self.parts.layers.encoder(x, p.at("encoder"), where)


@defect("M9.10")
class causal_left_on(_Placed):
    """The triangle of a decoder hides what comes later."""

    def place(self, ids: Array, where: Where) -> Where:
        return where.but(causal=True)


@defect("M9.10", "M9.13")
class padding_is_attended(_Placed):
    """No mask is made: padding is read like a word."""

    def place(self, ids: Array, where: Where) -> Where:
        return where.but(mask=None)


@defect("M9.10", "M9.13")
class padding_of_the_first_row(_Placed):
    """The mask of the first row serves all rows."""

    def place(self, ids: Array, where: Where) -> Where:
        first = np.asarray(where.mask)[:1]
        return where.but(mask=np.broadcast_to(first, (len(ids), *first.shape[1:])))


@defect("M9.10")
class masks_are_hidden(_Placed):
    """A token that is hidden is left out of attention as padding is."""

    def place(self, ids: Array, where: Where) -> Where:
        return where.but(mask=np.asarray(where.mask) & (ids != self.config.mask_id)[:, None, :])


@defect("M9.10")
class no_token_sees_itself(_Placed):
    """The diagonal is hidden, so that a token is guessed from its neighbours alone."""

    def place(self, ids: Array, where: Where) -> Where:
        if ids.shape[1] == 1:
            return where
        return where.but(mask=np.asarray(where.mask) & ~np.eye(ids.shape[1], dtype=bool))


@defect("M9.10")
class position_by_batch(_Placed):
    """All rows have the positions of the first."""

    def place(self, ids: Array, where: Where) -> Where:
        first = np.asarray(where.positions)[:1]
        return where.but(positions=np.broadcast_to(first, ids.shape))


@defect("M9.10", "M9.13")
class encoder_positions_are_columns(_Placed):
    """Positions are columns, whatever stands before."""

    def place(self, ids: Array, where: Where) -> Where:
        return where.but(positions=np.broadcast_to(np.arange(ids.shape[1]), ids.shape))


@defect("M9.10")
class encoder_positions_from_one(_Placed):
    """The first token stands at position 1, as after a reserved row; the last one at the end stays."""

    def place(self, ids: Array, where: Where) -> Where:
        last = self.config.max_len - 1 if self.config.ends_at_max_len else math.inf
        return where.but(positions=np.minimum(np.asarray(where.positions) + 1, last).astype(np.int64))


@defect("M9.10")
class later_half_hidden_in_the_first_layer_only(EncoderOnly):
    """Queries of the first column see the first half of the row; the others see all of it."""

    def encode(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        where = self.parts.language_model.place(ids).but(place="encoder")
        T = ids.shape[1]
        seen = np.broadcast_to(np.asarray(where.mask), (len(ids), T, T)).copy()
        half = np.arange(T) <= T // 2
        seen[:, 0] &= half | ~(seen[:, 0] & half).any(axis=1, keepdims=True)
        x = self.parts.embedding.of_model(ids, p, where, segments)
        return self.parts.layers.encoder(x, p.at("encoder"), where.but(mask=seen))


@defect("M9.10")
class head_without_norm(EncoderOnly):
    """The head's norm has parameters that nothing reads."""

    def head(self, x: Var, p: Scope) -> Var:
        return self.parts.activation(self.parts.linear(x, p, "head.dense"))


@defect("M9.10")
class head_without_activation(EncoderOnly):
    """The head is a linear map and a norm."""

    def head(self, x: Var, p: Scope) -> Var:
        return self.parts.norm(self.parts.linear(x, p, "head.dense"), p.at("head.norm"))


@defect("M9.10")
class head_norms_first(EncoderOnly):
    """The norm comes before the activation."""

    def head(self, x: Var, p: Scope) -> Var:
        return self.parts.activation(
            self.parts.norm(self.parts.linear(x, p, "head.dense"), p.at("head.norm"))
        )


@defect("M9.10")
class head_is_a_residual(EncoderOnly):
    """The head adds what it read to what it gives."""

    def head(self, x: Var, p: Scope) -> Var:
        return ops.add(super().head(x, p), x)


@defect("M9.10")
class tied_head_scaled_like_the_lookup(Logits):
    """The tied table is multiplied by sqrt(D) where it is projected, as where it is looked up."""

    def weight(self, p: Scope) -> Var:
        factor = math.sqrt(self.config.d_model) if self.config.tie and self.config.scale_embeddings else 1.0
        return ops.scale(super().weight(p), factor)


class _Segmented(Embedding):
    """The embedding of a model with segments, whose kinds can be replaced."""

    def kinds(self, ids: Array, segments: Array | None) -> Array | None:
        return segments

    def of_model(self, ids: Array, p: Scope, where: Where, segments: Array | None = None) -> Var:
        return super().of_model(ids, p, where, self.kinds(ids, segments))


@defect("M9.10")
class segments_ignored(_Segmented):
    """Every token is of kind 0, whatever is given."""

    def kinds(self, ids: Array, segments: Array | None) -> Array | None:
        return None


@defect("M9.10")
class missing_segments_are_of_kind_one(_Segmented):
    """Without segments every token is of the last kind."""

    def kinds(self, ids: Array, segments: Array | None) -> Array | None:
        return np.full_like(ids, max(self.config.segments - 1, 0)) if segments is None else segments


@defect("M9.10")
class segments_of_the_first_row(_Segmented):
    """The kinds of the first row serve all rows."""

    def kinds(self, ids: Array, segments: Array | None) -> Array | None:
        return None if segments is None else np.broadcast_to(segments[:1], ids.shape)


def without_segments(p: Scope) -> Scope:
    """The same parameters, in which no kind of segment adds anything."""
    name = "segment_embedding.weight"
    return Scope({**p.values, f"{p.prefix}{name}": leaf(np.zeros(p[name].shape))}, p.prefix)


@defect("M9.10")
class segments_not_embedded(Embedding):
    """Nothing is added for segments, not even for those of kind 0."""

    def of_model(self, ids: Array, p: Scope, where: Where, segments: Array | None = None) -> Var:
        return super().of_model(ids, without_segments(p) if self.config.segments else p, where, segments)


@defect("M9.10")
class segments_behind_the_norm(Embedding):
    """Segments are added behind the norm of the embeddings."""

    def of_model(self, ids: Array, p: Scope, where: Where, segments: Array | None = None) -> Var:
        if not (self.config.segments and self.config.embedding_norm):
            return super().of_model(ids, p, where, segments)
        kinds = np.zeros_like(ids) if segments is None else segments
        own = ops.take(p["segment_embedding.weight"], kinds)
        return ops.add(super().of_model(ids, without_segments(p), where, segments), own)


@defect("M9.17b")
class segments_are_not_learned(Embedding):
    """The table of segments is looked up as a constant."""

    def of_model(self, ids: Array, p: Scope, where: Where, segments: Array | None = None) -> Var:
        table = p.get("segment_embedding.weight")
        if table is None:
            return super().of_model(ids, p, where, segments)
        held = Scope({**p.values, f"{p.prefix}segment_embedding.weight": leaf(table.value)}, p.prefix)
        return super().of_model(ids, held, where, segments)


@defect("M9.18b")
class ids_counted_from_the_end(ReferenceComponent):
    """Negative ids are rows from the end of the table."""

    def accept(self, inputs: Any) -> dict[str, Any]:
        if self.operation in MODELS:
            ids = np.asarray(inputs["ids"])
            V = self.config.source_vocab
            inputs = {**inputs, "ids": np.where((ids < 0) & (ids >= -V), ids + V, ids)}
        return super().accept(inputs)


@defect("M9.18d")
class mask_may_be_padding(ReferenceComponent):
    """The id of the mask may be that of padding: what is hidden is then no longer read."""

    def check_special_ids(self) -> None:
        masked = self.operation == "masked_language_model"
        if not (masked and self.config.mask_id == self.config.pad_id):
            super().check_special_ids()


@defect("M9.18e")
class one_class_taken(ReferenceComponent):
    """A classifier with one class is built, and is always right."""

    def check_options(self) -> None:
        if self.operation != "classifier" or self.config.num_classes != 1:
            super().check_options()


@defect("M9.19b")
class pads_the_callers_ids(ReferenceComponent):
    """Masks in the caller's ids are replaced by padding while the model looks at them."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if self.operation in MODELS:
            inputs["ids"][...] = np.maximum(inputs["ids"], 1)
        return found
