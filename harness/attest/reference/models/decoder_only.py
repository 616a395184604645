"""The decoder-only model: one stream of ids, causal layers, logits of what follows each token.

A token's position is the number of real tokens before it. Padding is hidden wherever it stands, so that one
rule serves prompts that are padded on the left, on the right or not at all, and a cache.

Shapes: B batch, T length, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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

    def logits(self, x: Var, p: Scope) -> Var:
        """Raw logits (B, T, V)."""
        return self.parts.logits(x, p)

    def __call__(self, ids: Array, p: Scope) -> Var:
        where = self.place(ids)
        x = self.parts.embedding.of_model(ids, p, where)
        return self.logits(self.parts.layers.causal_stack(x, p.at("decoder"), where), p)


@formula("language_model")
def _language_model(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"logits": parts.language_model(inputs["ids"], p)}
