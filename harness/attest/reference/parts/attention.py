"""Scaled dot-product attention, section 3.2.1 of the paper.

Shapes: T queries, S keys, d width of a query and of a key; leading axes (batch, heads) broadcast.
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


class Attention(Part):
    """softmax(q k^T / sqrt(d)) v. The weights returned are those before dropout."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        return ops.matmul(q, ops.swap(k))

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        own = self.config.attention_scale
        return ops.scale(scores, 1.0 / math.sqrt(q.shape[-1]) if own is None else own)

    def capped(self, scores: Var) -> Var:
        """Scaled scores s as c tanh(s / c), where the config has a cap c."""
        cap = self.config.score_cap
        if cap is None:
            return scores
        bent = np.tanh(scores.value / cap)
        return ops.elementwise(scores, cap * bent, 1 - bent * bent)

    def biased(self, scores: Var, where: Where) -> Var:
        """With the bias of a positional encoding that has one."""
        return scores if where.bias is None else ops.add(scores, where.bias)

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        """Softmax over the keys; a query that may see nothing gets zeros."""
        if where.sinks is None:
            return ops.softmax(scores, allowed)
        return self.beside_sinks(scores, where.sinks, allowed)

    def beside_sinks(self, scores: Var, sinks: Var, allowed: Array | None) -> Var:
        """Softmax over the keys and one score more, whose weight goes to no value (arXiv 2508.10925)."""
        every = np.zeros((*scores.shape[:-1], 1))
        both = ops.concat([scores, ops.add(sinks, every)])
        if allowed is not None:
            seen = np.broadcast_to(allowed, scores.shape)
            allowed = np.concatenate([seen, np.ones_like(seen[..., :1])], axis=-1)
        return ops.columns(ops.softmax(both, allowed), 0, scores.shape[-1])

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        return ops.mix(weights, v)

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        allowed = self.parts.masks.allowed(where, q.shape[-2], k.shape[-2])
        scores = self.biased(self.capped(self.scale(self.scores(q, k, where), q, k, where)), where)
        weights = self.weights_from(scores, allowed, where)
        return {"output": self.mix(self.parts.dropout(weights, "attention"), v, where), "weights": weights}


@formula("attention")
def _attention(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return parts.attention(inputs["q"], inputs["k"], inputs["v"], Where.of(inputs))
