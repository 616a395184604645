"""Defects of sinks and caps. Shapes: scores (..., T, S); a sink is (H, 1, 1), or () of one head."""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.attention import Attention
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach


@defect("M8.15a")
class sinks_ignored(Attention):
    """Sinks are loaded and not read."""

    def beside_sinks(self, scores: Var, sinks: Var, allowed: Array | None) -> Var:
        return ops.softmax(scores, allowed)


@defect("M8.15a")
class sinks_ignored_in_training(Attention):
    """The path of train mode has no sinks."""

    def beside_sinks(self, scores: Var, sinks: Var, allowed: Array | None) -> Var:
        return (
            super().beside_sinks(scores, sinks, allowed)
            if self.noise is None
            else ops.softmax(scores, allowed)
        )


@defect("M8.15a")
class sinks_are_zero(Attention):
    """Every head has a sink of 0, as a softmax with one added to its sum has."""

    def beside_sinks(self, scores: Var, sinks: Var, allowed: Array | None) -> Var:
        return super().beside_sinks(scores, ops.scale(sinks, 0.0), allowed)


@defect("M8.15a")
class sinks_scaled_like_scores(Attention):
    """Sinks are divided by the root of the head's width."""

    def beside_sinks(self, scores: Var, sinks: Var, allowed: Array | None) -> Var:
        return super().beside_sinks(scores, ops.scale(sinks, 1 / math.sqrt(self.config.d_head)), allowed)


@defect("M8.15a")
class sinks_dropped_in_steps(MultiHead):
    """Queries that read a cache do not see their sink."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        if query.shape[1] == k.shape[2]:
            return super().attend(query, k, v, p, where)
        return MultiHead.attend(self.parts.but(sinks=False).heads, query, k, v, p, where)


@defect("M8.15")
class cap_dropped_in_steps(MultiHead):
    """Scores of queries that read a cache are not capped."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        if query.shape[1] == k.shape[2]:
            return super().attend(query, k, v, p, where)
        return MultiHead.attend(self.parts.but(score_cap=None).heads, query, k, v, p, where)


@defect("M8.15a")
class sinks_not_raised(Attention):
    """The sink itself is added to the sum of exponentials, by its size."""

    def beside_sinks(self, scores: Var, sinks: Var, allowed: Array | None) -> Var:
        raised = np.log(np.abs(sinks.value) + 1e-30)
        slope = 1 / (sinks.value + np.where(sinks.value == 0, 1e-30, 0))
        return super().beside_sinks(scores, ops.elementwise(sinks, raised, slope), allowed)


@defect("M8.15a")
class sinks_hidden_by_a_mask(Attention):
    """A query whose mask hides its first key does not see the sink."""

    def beside_sinks(self, scores: Var, sinks: Var, allowed: Array | None) -> Var:
        if allowed is None:
            return super().beside_sinks(scores, sinks, allowed)
        first = np.broadcast_to(allowed, scores.shape)[..., :1]
        plain, right = ops.softmax(scores, allowed), super().beside_sinks(scores, sinks, allowed)
        return ops.add(ops.where(first, right, 0.0), ops.where(~first, plain, 0.0))


@defect("M8.15a")
class sink_of_the_first_head(MultiHead):
    """All heads have the sink of the first."""

    def sinks(self, p: Scope, where: Where) -> Var | None:
        own = super().sinks(p, where)
        return None if own is None else ops.index(own, [0] * own.shape[0])


@defect("M8.15a")
class sinks_by_key_head(MultiHead):
    """Query head h has the sink of its place among the key heads: h modulo G."""

    def sinks(self, p: Scope, where: Where) -> Var | None:
        own = super().sinks(p, where)
        return (
            None if own is None else ops.index(own, [h % self.config.kv_heads for h in range(own.shape[0])])
        )


@defect("M8.16")
class sinks_without_a_gradient(MultiHead):
    """Sinks are read and never learned."""

    def sinks(self, p: Scope, where: Where) -> Var | None:
        own = super().sinks(p, where)
        return None if own is None else detach(own)


@defect("M8.16")
class cap_without_a_slope(Attention):
    """Backwards, capped scores count as they were."""

    def capped(self, scores: Var) -> Var:
        right = super().capped(scores)
        return ops.elementwise(scores, right.value, np.ones(scores.shape))
