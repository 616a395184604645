"""Defects of documents side by side, and of rows in a batch.

Shapes: ids (B, T), lengths (B, N), documents (B, T), x (B, T, D).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Config
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.assembly import Parts
from attest.reference.implementation import ReferenceImplementation
from attest.reference.models.decoder_only import DecoderOnly
from attest.reference.models.language_model import ReferenceLanguageModel
from attest.reference.parts.attention import Attention
from attest.reference.parts.chunked import Chunked
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach


@defect("M8.12")
class mask_only(DecoderOnly):
    """Documents are hidden from each other, and positions count on through the row."""

    def packed_positions(self, documents: Array, lengths: Array) -> Array:
        return np.broadcast_to(np.arange(documents.shape[1]), documents.shape).copy()


@defect("M8.12")
class row_ends_at_an_empty_document(DecoderOnly):
    """Documents behind one of length 0 count as padding."""

    def documents(self, T: int, lengths: Array) -> Array:
        return super().documents(T, lengths * np.cumprod(lengths > 0, axis=1))


@defect("M8.12")
class window_dropped_where_packed(DecoderOnly):
    """A packed row is read without its window: the mask of documents takes its place."""

    def packed(self, ids: Array, lengths: Array, p: Scope) -> dict[str, Var]:
        if self.config.window is None:
            return super().packed(ids, lengths, p)
        return DecoderOnly.packed(self.parts.but(window=None).language_model, ids, lengths, p)


@defect("M8.12")
class row_ends_at_max_len(ReferenceLanguageModel):
    """A packed row is refused where it is longer than max_len, although its documents are not."""

    def accept_packed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        self.check_length("ids", np.shape(inputs["ids"])[1])
        return super().accept_packed(inputs)


@defect("M8.12")
class positions_only(DecoderOnly):
    """Positions restart with each document, and all documents before are seen."""

    def packed_mask(self, ids: Array, documents: Array) -> Array:
        seen = (documents >= 0)[:, None, :]
        return np.broadcast_to(seen, (*documents.shape, documents.shape[1])).copy()


@defect("M8.12")
class boundary_label_counted(DecoderOnly):
    """The last token of a document is asked for the first of the next."""

    def follows(self, documents: Array) -> Array:
        return np.asarray(documents[:, 1:] >= 0)


@defect("M8.12")
class first_prediction_dropped(DecoderOnly):
    """The first prediction of every document but the first is left out of the loss."""

    def follows(self, documents: Array) -> Array:
        follows = super().follows(documents)
        begins = documents[:, :-1] != np.concatenate([documents[:, :1], documents[:, :-2]], axis=1)
        return np.asarray(follows & ~begins)


@defect("M8.12")
class last_document_sees_padding(DecoderOnly):
    """Padding behind the last document counts as one more of its tokens in the loss."""

    def documents(self, T: int, lengths: Array) -> Array:
        found = super().documents(T, lengths)
        self.padded = found < 0
        return found

    def follows(self, documents: Array) -> Array:
        reached = documents[:, :-1] >= 0
        return np.asarray(super().follows(documents) | (reached & self.padded[:, 1:]))


@defect("M8.12")
class lengths_off_by_one(DecoderOnly):
    """Every document but the last begins one token late."""

    def documents(self, T: int, lengths: Array) -> Array:
        found = super().documents(T, lengths)
        return np.concatenate([found[:, :1], found[:, :-1]], axis=1)


@defect("M8.12")
class detection_off_with_mask(DecoderOnly):
    """Where a row has padding too, its documents see each other."""

    def packed_mask(self, ids: Array, documents: Array) -> Array:
        same, shown = super().packed_mask(ids, documents), (documents >= 0)[:, None, :]
        padded = np.any(documents < 0, axis=1, keepdims=True)[..., None]
        return np.where(padded, np.broadcast_to(shown, same.shape), same)


@defect("M8.12")
class detection_off_with_cache(DecoderOnly):
    """Once a cache was started, documents see each other."""

    def packed_mask(self, ids: Array, documents: Array) -> Array:
        same, shown = super().packed_mask(ids, documents), (documents >= 0)[:, None, :]
        return np.broadcast_to(shown, same.shape).copy() if self.stepped else same

    stepped = False

    def real(self, ids: Array) -> Array:
        self.stepped = True
        return super().real(ids)


@defect("M8.12")
class documents_apart_in_eval_alone(DecoderOnly):
    """In train mode the documents of a row see each other."""

    def packed_mask(self, ids: Array, documents: Array) -> Array:
        same, shown = super().packed_mask(ids, documents), (documents >= 0)[:, None, :]
        return same if self.noise is None else np.broadcast_to(shown, same.shape).copy()


@defect("M8.12")
class documents_of_the_first_row(DecoderOnly):
    """Every row is cut as the first one is."""

    def documents(self, T: int, lengths: Array) -> Array:
        return np.broadcast_to(super().documents(T, lengths[:1]), (len(lengths), T)).copy()


@defect("M8.12")
class loss_is_a_mean_of_documents(DecoderOnly):
    """The loss is the mean of the documents' means: short ones weigh too much."""

    def packed(self, ids: Array, lengths: Array, p: Scope) -> dict[str, Var]:
        found = super().packed(ids, lengths, p)
        documents = self.documents(ids.shape[1], lengths)
        asked = ops.index(found["logits"], (slice(None), slice(0, -1)))
        losses = self.parts.loss.token_losses(asked, ids[:, 1:], 0.0)
        shares = self._shares(documents, self.follows(documents))
        return {**found, "loss": ops.total(ops.scale(losses, shares))}

    def _shares(self, documents: Array, follows: Array) -> Array:
        names = np.arange(len(documents))[:, None] * documents.shape[1] + documents[:, 1:]
        shares = np.zeros(follows.shape)
        present = np.unique(names[follows])
        for name in present:
            own = follows & (names == name)
            shares[own] = 1.0 / (own.sum() * len(present))
        return shares


@defect("M8.12a")
class boundary_open_backwards(DecoderOnly):
    """The loss of every document but the first of a row carries no gradient."""

    def packed(self, ids: Array, lengths: Array, p: Scope) -> dict[str, Var]:
        found = super().packed(ids, lengths, p)
        documents = self.documents(ids.shape[1], lengths)
        asked = ops.index(found["logits"], (slice(None), slice(0, -1)))
        first = (documents[:, :-1] <= 0)[..., None]
        cut = ops.add(ops.where(first, asked, 0.0), ops.where(~first, detach(asked), 0.0))
        losses = self.parts.loss.token_losses(cut, ids[:, 1:], 0.0)
        return {**found, "loss": self.parts.loss.reduce_losses(losses, self.follows(documents))}


@defect("M8.12a")
class packed_gradient_is_a_sum(DecoderOnly):
    """Backwards the loss is the sum over tokens, not their mean."""

    def packed(self, ids: Array, lengths: Array, p: Scope) -> dict[str, Var]:
        found = super().packed(ids, lengths, p)
        count = max(int(self.follows(self.documents(ids.shape[1], lengths)).sum()), 1)
        loss = found["loss"]
        return {**found, "loss": ops.sub(ops.scale(loss, float(count)), ops.scale(detach(loss), count - 1.0))}


@defect("M8.13")
class neighbour_in_max(Chunked):
    """The running maximum is that of the whole batch: small rows lose digits, to nothing at last."""

    def higher(self, top: Array, scores: Array) -> Array:
        highest = super().higher(top, scores)
        everywhere = highest.max(axis=tuple(range(highest.ndim)), keepdims=True)
        return np.broadcast_to(np.minimum(everywhere, highest + 600), highest.shape).copy()


@defect("M8.13")
class batch_statistics(MultiHead):
    """Queries are centred by their mean over the batch, a little."""

    def __call__(self, query: Var, key_value: Var, p: Scope, where: Where) -> dict[str, Var]:
        found = super().__call__(query, key_value, p, where)
        drift = query.value.mean() * 1e-6 if query.shape[0] > 1 else 0.0
        return {**found, "output": ops.add(found["output"], drift)}


@defect("M8.13")
class split_by_batch(Attention):
    """In batches of more than two rows the scores are rounded to eight bits first."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if where.place == "alone" or scores.shape[0] <= 2:
            return super().weights_from(scores, allowed, where)
        coarse = np.round(scores.value * 256) / 256
        return super().weights_from(ops.add(scores, coarse - scores.value), allowed, where)


@defect("M8.13")
class largest_row_sets_the_scale(MultiHead):
    """The output is divided and multiplied by the largest number of the batch, in the config's dtype."""

    def combine(self, concatenated: Var, p: Scope) -> Var:
        found = super().combine(concatenated, p)
        largest = max(float(np.abs(concatenated.value).max(initial=0.0)), 1e-30)
        step = largest * 2.0**-20
        return ops.add(found, np.round(found.value / step) * step - found.value)


class _LastBitByBatch(MultiHead):
    def combine(self, concatenated: Var, p: Scope) -> Var:
        found = super().combine(concatenated, p)
        bit = 2.0**-52 if self.config.dtype == "float64" else 2.0**-23
        return ops.scale(found, 1.0 + 2 * bit * (found.shape[0] % 2))


@defect("M8.13a")
class claims_invariance(ReferenceImplementation):
    """Declares batch_invariant; in odd batches the last bit differs."""

    batch_invariant = True

    def parts(self, config: Config) -> Parts:
        return Parts(config, _LastBitByBatch)


@defect("M8.17")
class documents_cut_to_fit(ReferenceLanguageModel):
    """Documents beyond the end of a row are cut."""

    def accept_packed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(inputs)
        T, lengths = np.shape(given["ids"])[1], np.maximum(np.asarray(given["lengths"]), 0)
        before = np.cumsum(lengths, axis=1) - lengths
        given["lengths"] = np.clip(lengths, 0, np.maximum(T - before, 0))
        return super().accept_packed(given)


@defect("M8.12")
class documents_in_four_bits(DecoderOnly):
    """Documents of a row are numbered in four bits: the first and the seventeenth see each other."""

    def packed_mask(self, ids: Array, documents: Array) -> Array:
        return super().packed_mask(ids, np.where(documents < 0, documents, documents % 16))
