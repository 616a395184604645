"""The decoder-only model: one stream of ids, causal layers, logits of what follows each token.

A token's position is the number of real tokens before it. Padding is hidden wherever it stands, so that one
rule serves prompts that are padded on the left, on the right or not at all, and a cache.

Shapes: B batch, T length, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class DecoderOnly(Part):
    """Embed, run the stack, project."""

    def real(self, ids: Array) -> Array:
        """(B, T): True where a token is no padding."""
        return self.parts.masks.padding_mask(ids, self.config.pad_id)[:, 0]

    def positions(self, real: Array, before: Array) -> Array:
        """(B, T): how many real tokens stand before each, `before` (B) of them in earlier steps."""
        counted: Array = np.maximum(before[:, None] + np.cumsum(real, axis=1) - 1, 0)
        return counted

    def place(self, ids: Array) -> Where:
        """Where the tokens of a whole sequence stand and what they may see."""
        real = self.real(ids)
        positions = self.positions(real, np.zeros(len(ids), np.int64))
        return Where(real[:, None, :], place="decoder", positions=positions)

    def documents(self, T: int, lengths: Array) -> Array:
        """(B, T): the number of each position's document, -1 behind the last."""
        ends = np.cumsum(lengths, axis=1)
        place: Array = (np.arange(T)[None, :, None] >= ends[:, None, :]).sum(axis=-1)
        return np.where(place < lengths.shape[1], place, -1)

    def packed_positions(self, documents: Array, lengths: Array) -> Array:
        """(B, T): counted from 0 in each document."""
        starts = np.cumsum(lengths, axis=1) - lengths
        first = np.take_along_axis(starts, np.maximum(documents, 0), axis=1)
        counted: Array = np.where(documents < 0, 0, np.arange(documents.shape[1]) - first)
        return counted

    def packed_mask(self, ids: Array, documents: Array) -> Array:
        """(B, T, T): tokens of one document see each other."""
        same: Array = (documents[:, :, None] == documents[:, None, :]) & (documents >= 0)[:, None, :]
        return same

    def follows(self, documents: Array) -> Array:
        """(B, T - 1): whether the next token belongs to the same document."""
        follows: Array = (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] >= 0)
        return follows

    def packed(self, ids: Array, lengths: Array, p: Scope) -> dict[str, Var]:
        """Logits of documents side by side, and the loss of their tokens."""
        documents = self.documents(ids.shape[1], lengths)
        positions = self.packed_positions(documents, lengths)
        where = Where(self.packed_mask(ids, documents), place="decoder", positions=positions)
        x = self.parts.embedding.of_model(ids, p, where)
        logits = self.logits(self.parts.layers.causal_stack(x, p.at("decoder"), where), p)
        asked = ops.index(logits, (slice(None), slice(0, -1)))
        losses = self.parts.loss.token_losses(asked, ids[:, 1:], 0.0)
        return {"logits": logits, "loss": self.parts.loss.reduce_losses(losses, self.follows(documents))}

    def logits(self, x: Var, p: Scope) -> Var:
        """Raw logits (B, T, V)."""
        return self.parts.logits(x, p)

    def __call__(self, ids: Array, p: Scope) -> Var:
        where = self.place(ids)
        x = self.parts.embedding.of_model(ids, p, where)
        return self.logits(self.parts.layers.causal_stack(x, p.at("decoder"), where), p)


@formula("packed")
def _packed(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return parts.language_model.packed(inputs["ids"], inputs["lengths"], p)


@formula("language_model")
def _language_model(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"logits": parts.language_model(inputs["ids"], p)}
