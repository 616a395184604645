"""Parts of the reference that compute in one piece, written out step by step, so that a step can be changed.

They give the same numbers; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.reference import ops
from attest.reference.parts.attention import Attention
from attest.reference.parts.norms import LayerNorm, Residual, Sublayer
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node


def power(a: Var, exponent: float) -> Var:
    """Each element to a power."""
    return ops.elementwise(a, a.value**exponent, exponent * a.value ** (exponent - 1.0))


def mean(a: Var) -> Var:
    """Over the last axis, which stays."""
    value = a.value.mean(axis=-1, keepdims=True)
    return node(value, (a,), lambda g: (np.broadcast_to(g / max(a.shape[-1], 1), a.shape),))


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
        total = ops.scale(mean(seen), float(scores.shape[-1]))
        return ops.mul(seen, power(ops.add(total, 1e-100), -1.0))


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
}
