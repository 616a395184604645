"""Parts of the reference that compute in one piece, written out step by step, so that a step can be changed.

They give the same numbers; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.reference import ops
from attest.reference.parts.attention import Attention
from attest.reference.parts.feed_forward import FeedForward
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.linear import Projections
from attest.reference.parts.norms import LayerNorm, Residual, RMSNorm, Sublayer
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node
from attest.reference.training.loss import Loss


def power(a: Var, exponent: float) -> Var:
    """Each element to a power."""
    return ops.elementwise(a, a.value**exponent, exponent * a.value ** (exponent - 1.0))


def mean(a: Var) -> Var:
    """Over the last axis, which stays."""
    value = a.value.mean(axis=-1, keepdims=True)
    return node(value, (a,), lambda g: (np.broadcast_to(g / max(a.shape[-1], 1), a.shape),))


def affine(x: Var, weight: Var, bias: Var | None) -> Var:
    """x W^T + b."""
    y = ops.matmul(x, ops.swap(weight))
    return y if bias is None else ops.add(y, bias)


class WrittenNorm(LayerNorm):
    """The norm by its mean, variance, root, weight and bias."""

    def __call__(self, x: Var, p: Scope) -> Var:
        centred = ops.sub(x, mean(x))
        variance = mean(ops.mul(centred, centred))
        normalised = ops.mul(centred, self.over_root(variance))
        return ops.add(ops.mul(normalised, p["weight"]), p["bias"])

    def over_root(self, variance: Var) -> Var:
        return power(ops.add(variance, self.config.norm_eps), -0.5)


class WrittenAttention(Attention):
    """The softmax by its exponentials and their sum."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        x = scores.value if allowed is None else np.where(allowed, scores.value, -np.inf)
        top = x.max(axis=-1, keepdims=True, initial=-1e300)
        # What is hidden is put at the maximum before the exponential: beyond it, it could overflow.
        shown = scores if allowed is None else ops.where(np.asarray(allowed), scores, top)
        raised = ops.exp(ops.add(shown, -top))
        seen = raised if allowed is None else ops.where(np.asarray(allowed), raised, 0.0)
        total = ops.add(ops.scale(mean(seen), float(scores.shape[-1])), 1e-100)
        logarithm = ops.add(ops.elementwise(total, np.log(total.value), 1 / total.value), top)
        weights = ops.exp(ops.sub(shown, logarithm))
        return weights if allowed is None else ops.where(np.asarray(allowed), weights, 0.0)


class WrittenRMSNorm(RMSNorm):
    """The norm by its mean square, root and weight."""

    def __call__(self, x: Var, p: Scope) -> Var:
        square = mean(ops.mul(x, x))
        root = power(ops.add(square, self.config.norm_eps), -0.5)
        return ops.mul(ops.mul(x, root), p["weight"])


class WrittenFeedForward(FeedForward):
    """The first map and the activation in one, the last map by its weight and bias."""

    def features(self, x: Var, p: Scope) -> Var:
        bias = p.get("inner.bias")
        if self.config.gated:
            return self.gated(self.parts.linear(x, p, "gate"), self.parts.linear(x, p, "inner"))
        return self.activation(
            ops.add(ops.matmul(x, ops.swap(p["inner.weight"])), 0.0 if bias is None else bias)
        )

    def __call__(self, x: Var, p: Scope) -> Var:
        features = self.parts.dropout(self.features(x, p), "feed_forward")
        return affine(features, p["outer.weight"], p.get("outer.bias"))


class WrittenProjections(Projections):
    """Each map by its own weight and bias."""

    def project_q(self, x: Var, p: Scope) -> Var:
        return affine(x, p["query.weight"], p.get("query.bias"))

    def project_k(self, x: Var, p: Scope) -> Var:
        return affine(x, p["key.weight"], p.get("key.bias"))

    def project_v(self, x: Var, p: Scope) -> Var:
        return affine(x, p["value.weight"], p.get("value.bias"))


class WrittenMultiHead(MultiHead):
    """The output map by its weight and bias."""

    def combine(self, concatenated: Var, p: Scope) -> Var:
        return affine(concatenated, p["output.weight"], p.get("output.bias"))


class WrittenLoss(Loss):
    """The cross-entropy by the logarithm of the sum of exponentials."""

    def token_losses(self, logits: Var, labels: Array, smoothing: float) -> Var:
        wanted = self.target_distribution(labels, logits.shape[-1], smoothing)
        logarithm = ops.log_sum_exp(logits)
        return ops.sub(logarithm, ops.sum_last(ops.scale(logits, wanted)))


class WrittenResidual(Residual):
    """The two placements of the norm, step by step."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        before = self.config.norm == "pre"
        read = self.parts.norm(x, norm) if before else x
        added = self.parts.dropout(sublayer(read), "sublayer")
        total = ops.add(x, added)
        return total if before else self.parts.norm(total, norm)


LONGHAND: Mapping[type[Any], type[Any]] = {
    LayerNorm: WrittenNorm,
    Attention: WrittenAttention,
    Residual: WrittenResidual,
    RMSNorm: WrittenRMSNorm,
    FeedForward: WrittenFeedForward,
    Projections: WrittenProjections,
    MultiHead: WrittenMultiHead,
    Loss: WrittenLoss,
}
