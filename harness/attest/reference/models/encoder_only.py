"""Models with an encoder alone: masked symbols are filled in, or a whole sequence is classified.

A token's position is the number of real tokens before it, as in a decoder-only model; padding is hidden.

Shapes: B batch, T length, D width, V vocabulary, C classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class EncoderOnly(Part):
    """Embed, encode, and read the result."""

    def real(self, ids: Array) -> Array:
        """(B, T): True where a token is no padding."""
        return self.parts.language_model.real(ids)

    def encode(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        """(B, T, D): every token sees every real one."""
        where = self.parts.language_model.place(ids).but(place="encoder")
        x = self.parts.embedding.of_model(ids, p, where, segments)
        return self.parts.layers.encoder(x, p.at("encoder"), where)

    def head(self, x: Var, p: Scope) -> Var:
        """A linear map, the activation and a norm, before the projection."""
        return self.parts.norm(
            self.parts.activation(self.parts.linear(x, p, "head.dense")), p.at("head.norm")
        )

    def filled_in(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        """Logits (B, T, V) of a masked language model."""
        return self.parts.logits(self.head(self.encode(ids, segments, p), p), p)

    def shares(self, real: Array) -> Array:
        """(B, T): how much of each token the pooled vector has; padding has none."""
        count = np.maximum(real.sum(axis=1, keepdims=True), 1)
        index = np.arange(real.shape[1])
        first = index == real.argmax(axis=1)[:, None]
        last = index == real.shape[1] - 1 - real[:, ::-1].argmax(axis=1)[:, None]
        chosen = {"mean": real / count, "first": first & real, "last": last & real}
        return np.asarray(chosen[self.config.pooling], np.float64)

    def pooled(self, x: Var, real: Array) -> Var:
        """(B, D): the mean of the real tokens, the first of them or the last."""
        B, _, D = x.shape
        return ops.reshape(ops.matmul(leaf(self.shares(real)[:, None, :], eps=x.eps), x), (B, D))

    def classified(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        """Logits (B, C)."""
        x = self.encode(ids, segments, p)
        return self.parts.linear(self.pooled(x, self.real(ids)), p, "projection")


@formula("masked_language_model")
def _masked_language_model(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"logits": parts.encoder_only.filled_in(inputs["ids"], inputs.get("segments"), p)}


@formula("classifier")
def _classifier(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"logits": parts.encoder_only.classified(inputs["ids"], inputs.get("segments"), p)}
