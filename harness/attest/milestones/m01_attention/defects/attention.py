"""Defects of scaled dot-product attention: projections, scores, scale, softmax, gradients.

Shapes: q (..., T, d), k and v (..., S, d).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.attention import Attention
from attest.reference.parts.linear import Projections
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach, node


@defect("M1.1")
class q_equals_k(Projections):
    """Keys are made by the query map."""

    def project_k(self, x: Var, p: Scope) -> Var:
        return self.parts.linear(x, p, "query")


@defect("M1.1")
class k_equals_v(Projections):
    """Keys are made by the value map."""

    def project_k(self, x: Var, p: Scope) -> Var:
        return self.parts.linear(x, p, "value")


@defect("M1.1")
class v_replaced_by_k(Projections):
    """Values are made by the key map."""

    def project_v(self, x: Var, p: Scope) -> Var:
        return self.parts.linear(x, p, "key")


@defect("M1.1")
class projection_is_buffer(ReferenceComponent):
    """The value map is stored as a buffer, so that no optimiser sees it."""

    def parameters(self) -> dict[str, Array]:
        return {n: x for n, x in super().parameters().items() if n != "value.weight"}

    def buffers(self) -> dict[str, Array]:
        return {**super().buffers(), **{n: x for n, x in self.values.items() if n == "value.weight"}}


@defect("M1.1")
class load_keeps_the_first_weights(ReferenceComponent):
    """Weights are copied on the first load and never again."""

    def load(self, parameters: Any) -> None:
        if self._values is None:
            super().load(parameters)


@defect("M1.1")
class projection_bias_dropped(Projections):
    """The biases of the projections are stored and not added."""

    def project_v(self, x: Var, p: Scope) -> Var:
        return ops.matmul(x, ops.swap(p["value.weight"]))


@defect("M1.2", "M1.8", "M1.10")
class no_scale(Attention):
    """Scores are not divided by sqrt(d_k)."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return scores


@defect("M1.2", "M1.8", "M1.10")
class scale_by_dk(Attention):
    """Scores are divided by d_k instead of its square root."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.scale(scores, 1.0 / q.shape[-1])


@defect("M1.2", "M1.8", "M1.10")
class scale_by_sqrt_keys(Attention):
    """Scores are divided by the root of the number of keys."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.scale(scores, 1.0 / math.sqrt(k.shape[-2]))


@defect("M1.2", "M1.8", "M1.10")
class scale_multiplied(Attention):
    """Scores are multiplied by sqrt(d_k)."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.scale(scores, math.sqrt(q.shape[-1]))


@defect("M1.10", "M1.2")
class scale_log_dk(Attention):
    """Scores are divided by the binary logarithm of d_k, which is its root at a width of 4."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.scale(scores, 1.0 / max(1.0, math.log2(q.shape[-1])))


@defect("M1.10", "M1.2")
class scale_of_a_fixed_width(Attention):
    """Scores are divided by 8, the root of the paper's 64."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.scale(scores, 0.125)


@defect("M1.2", "M1.12")
class k_not_transposed(Attention):
    """K is reshaped to (d, S) instead of transposed."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        *leading, S, d = k.shape
        return ops.matmul(q, ops.reshape(k, (*leading, d, S)))


@defect("M1.2", "M1.8")
class swap_q_k(Attention):
    """Scores are K Q^T, which only fits where there are as many queries as keys."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        return super().scores(k, q, where) if q.shape[-2] == k.shape[-2] else super().scores(q, k, where)


@defect("M1.2", "M1.8")
class mean_pooling(Attention):
    """Every visible key gets the same weight."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.scale(scores, 0.0)


@defect("M1.2", "M1.3")
class eps_in_denominator(Attention):
    """1e-6 is added to the sum of the exponentials."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        x = scores.value if allowed is None else np.where(allowed, scores.value, -np.inf)
        top = x.max(-1, keepdims=True)
        total = np.exp(x - np.where(top == -np.inf, 0.0, top)).sum(-1, keepdims=True)
        return ops.scale(super().weights_from(scores, allowed, where), total / (total + 1e-6))


@defect("M1.2")
class last_block_of_keys_dropped(Attention):
    """Keys are read in blocks of 16, and those after the last whole block are left out."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        S = scores.shape[-1]
        whole = np.arange(S) < (S if S < 16 else S - S % 16)
        return super().weights_from(scores, whole if allowed is None else np.asarray(allowed & whole), where)


@defect("M1.2")
class only_the_largest_of_many_weights(Attention):
    """Of more than 64 keys, those with smaller weights than the 64 largest are left out."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        weights = super().weights_from(scores, allowed, where)
        if scores.shape[-1] <= 64:
            return weights
        kept = weights.value >= np.sort(weights.value, axis=-1)[..., -64, None]
        return super().weights_from(scores, kept if allowed is None else np.asarray(allowed & kept), where)


@defect("M1.3", "M1.2")
class softmax_over_queries(Attention):
    """The softmax runs over the queries."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        turned = None if allowed is None else np.broadcast_to(allowed, scores.shape).swapaxes(-1, -2)
        return ops.swap(super().weights_from(ops.swap(scores), turned, where))


@defect("M1.3", "M1.2")
class softmax_over_heads(Attention):
    """The softmax runs over the axis before the queries, as an axis left implicit would."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        turned = None if allowed is None else np.broadcast_to(allowed, scores.shape).swapaxes(-1, -3)
        return ops.swap(super().weights_from(ops.swap(scores, -1, -3), turned, where), -1, -3)


@defect("M1.3", "M1.2")
class sigmoid(Attention):
    """Each score goes through a sigmoid by itself, so weights do not sum to one."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        y = 1.0 / (1.0 + np.exp(-scores.value))
        weights = ops.elementwise(scores, y, y * (1 - y))
        return weights if allowed is None else ops.where(allowed, weights, 0.0)


@defect("M1.3")
class weights_not_those_used(Attention):
    """The weights returned are those without a mask."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        shown = super().__call__(q, k, v, where.but(mask=None, causal=False))["weights"]
        return {**super().__call__(q, k, v, where), "weights": shown}


@defect("M1.3")
class weights_after_dropout(Attention):
    """The weights returned in training have been through dropout and do not sum to one."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        found = super().__call__(q, k, v, where)
        return {**found, "weights": self.parts.dropout(found["weights"], "attention")}


@defect("M1.9")
class softmax_without_max(Attention):
    """The maximum is not subtracted before the exponential."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        raised = np.exp(scores.value) if allowed is None else np.where(allowed, np.exp(scores.value), 0.0)
        total = raised.sum(-1, keepdims=True)
        p = raised / np.where(total == 0, 1.0, total)
        return node(p, (scores,), lambda g: (p * (g - (g * p).sum(-1, keepdims=True)),))


@defect("M1.9")
class scores_clipped(Attention):
    """Scores are clipped to 50 on either side to keep the exponential finite."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        x = super().scale(scores, q, k, where)
        return ops.elementwise(x, np.clip(x.value, -50.0, 50.0), (np.abs(x.value) < 50.0).astype(np.float64))


@defect("M1.9", "M1.2")
class half_precision_inside(Attention):
    """Scores are computed in float16 for every dtype."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        x = super().scale(scores, q, k, where)
        return ops.elementwise(x, x.value.astype(np.float16).astype(np.float64), np.ones(x.shape))


@defect("M1.13")
class detached_scores(Attention):
    """No gradient flows through the weights."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        return detach(super().scores(q, k, where))


@defect("M1.13")
class detached_values(Attention):
    """No gradient flows to the values."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        return super().mix(weights, detach(v), where)


@defect("M1.13")
class detached_keys(Attention):
    """No gradient flows to the keys."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        return super().scores(q, detach(k), where)


@defect("M1.13")
class keys_detached_for_a_single_query(Attention):
    """With one query, as in decoding, the keys are taken for a cache and get no gradient."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        return super().scores(q, detach(k) if q.shape[-2] == 1 < k.shape[-2] else k, where)


@defect("M1.13")
class queries_detached_under_a_shared_mask(Attention):
    """The branch for a mask without a batch axis works on a detached copy of the queries."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        shared = where.mask is not None and np.ndim(where.mask) == 2
        return super().__call__(detach(q) if shared else q, k, v, where)


@defect("M1.13")
class softmax_gradient_of_the_diagonal(Attention):
    """The backward of the softmax leaves out the term that couples the keys."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        p = super().weights_from(detach(scores), allowed, where).value
        return node(p, (scores,), lambda g: (p * (1 - p) * g,))


@defect("M1.13")
class scale_missing_in_the_gradient(Attention):
    """The backward forgets the factor 1 / sqrt(d_k)."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return node(super().scale(scores, q, k, where).value, (scores,), lambda g: (g,))


@defect("M1.13")
class gradient_reaches_hidden_values(Attention):
    """The backward spreads a row's gradient over all values, hidden ones too."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        mixed = super().mix(weights, v, where)
        leak = ops.sub(v, detach(v))
        share = Var(np.full(weights.shape, 1e-3))
        return ops.add(mixed, ops.matmul(share, leak))
