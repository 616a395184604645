"""From ids to vectors, and from vectors to logits: section 3.4 of the paper.

Shapes: B batch, T positions, D width, V vocabulary.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Embedding(Part):
    """Scaled token rows plus positions, then dropout."""

    def embed(self, ids: Array, table: Var) -> Var:
        """Rows of the table; the padding row is looked up but never learned."""
        return ops.take(table, ids, learned=ids != self.config.pad_id)

    def scale(self) -> float:
        return math.sqrt(self.config.d_model) if self.config.scale_embeddings else 1.0

    def __call__(self, ids: Array, table: Var, where: Where) -> Var:
        tokens = ops.scale(self.embed(ids, table), self.scale())
        return self.parts.dropout(self.parts.positions.add(tokens, where), "embedding")

    def of_model(self, ids: Array, p: Scope, where: Where, segments: Array | None = None) -> Var:
        """The input of a model with one stream: tokens, segments and positions, then their norm."""
        x = ops.scale(self.embed(ids, p["embedding.weight"]), self.scale())
        if self.config.segments:
            kinds = np.zeros_like(ids) if segments is None else segments
            x = ops.add(x, ops.take(p["segment_embedding.weight"], kinds))
        x = self.parts.positions.add(x, where.but(table=p.get("position_embedding.weight")))
        x = self.parts.norm(x, p.at("embedding_norm")) if self.config.embedding_norm else x
        return self.parts.dropout(x, "embedding")


class Logits(Part):
    """The last map of the model: raw logits (B, T, V)."""

    def weight(self, p: Scope) -> Var:
        """(V, D); the embedding of what is written itself when tied."""
        if not self.config.tie:
            return p["projection.weight"]
        shared = p.get("embedding.weight")
        return p["target_embedding.weight"] if shared is None else shared

    def scaled(self, x: Var) -> Var:
        """What the projection reads."""
        factor = self.config.projection_scale
        return x if factor == 1.0 else ops.scale(x, factor)

    def __call__(self, x: Var, p: Scope) -> Var:
        logits = ops.matmul(self.scaled(x), ops.swap(self.weight(p)))
        bias = p.get("projection.bias")
        return logits if bias is None else ops.add(logits, bias)


@formula("token_embedding")
def _token_embedding(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.embedding.embed(inputs["ids"], p["weight"])}


@formula("input_embedding")
def _input_embedding(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.embedding(inputs["ids"], p["weight"], Where())}
