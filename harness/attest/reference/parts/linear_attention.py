"""Attention with a kernel in place of the softmax: https://arxiv.org/abs/2006.16236, equations 4 to 9.

Shapes: B batch, H heads, T queries, S keys, d width of queries and keys, d_v of values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node, variance_of

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class LinearAttention(Part):
    """phi(q) (phi(k)^T v) / (phi(q) sum of phi(k)), in the form that has the weights."""

    def features(self, x: Var) -> Var:
        """phi(x) = elu(x) + 1: x + 1 above zero, exp(x) below."""
        positive = x.value > 0
        raised = np.exp(np.minimum(x.value, 0.0))
        value, slope = np.where(positive, x.value + 1, raised), np.where(positive, 1.0, raised)
        variance = None
        if x.eps:
            # 1 is added to elu(x): the rounding is that of a number of size 1, however small the sum. The
            # exponential minus 1 before it: 2 more.
            variance = variance_of(x) * slope * slope + (3 * x.eps * np.maximum(value, 1.0)) ** 2
        return node(value, (x,), lambda g: (g * slope,), variance)

    def weights(self, q: Var, k: Var, allowed: Array | None) -> Var:
        """Before they are divided by their sum, (B, H, T, S); zero where not allowed."""
        weights = ops.matmul(self.features(q), ops.swap(self.features(k)))
        return weights if allowed is None else ops.where(allowed, weights, 0.0)

    def normaliser(self, weights: Var) -> Var:
        """(B, H, T): the sum over the keys."""
        return ops.sum_last(weights)

    def divided(self, mixed: Var, total: Var) -> Var:
        """A query that sees nothing gets zeros."""
        blind = total.value == 0
        inverse = np.where(blind, 0.0, 1.0 / np.where(blind, 1.0, total.value))
        share = ops.elementwise(total, inverse, -inverse * inverse)
        return ops.mul(mixed, ops.reshape(share, (*share.shape, 1)))

    def allowed(self, where: Where, q: Var, k: Var) -> Array | None:
        """(B or 1, 1, T or 1, S)."""
        mask = where.mask if where.mask is None else self.parts.heads.allowed_for(where.mask, 0, 0, 0)
        return self.parts.masks.allowed(where.but(mask=mask), q.shape[-2], k.shape[-2])

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> Var:
        weights = self.weights(q, k, self.allowed(where, q, k))
        return self.divided(ops.mix(weights, v), self.normaliser(weights))


@formula("linear_attention")
def _linear_attention(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.linear_attention(inputs["q"], inputs["k"], inputs["v"], Where.of(inputs))}
