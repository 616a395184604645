"""Correct but unusual norms and gated feed-forward networks."""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.parts.feed_forward import FeedForward, Silu
from attest.reference.parts.norms import RMSNorm
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node


@variant("M9")
class rms_by_the_length(RMSNorm):
    """The Euclidean length, with D times eps under its root, divides; sqrt(D) multiplies."""

    def __call__(self, x: Var, p: Scope) -> Var:
        D = x.shape[-1]
        length = np.sqrt((x.value * x.value).sum(axis=-1, keepdims=True) + D * self.config.norm_eps)
        unit = x.value / length

        def backward(g: Array) -> tuple[Array]:
            return ((g - unit * (g * unit).sum(axis=-1, keepdims=True)) / length,)

        return ops.mul(ops.scale(node(unit, (x,), backward), math.sqrt(D)), p["weight"])


@variant("M9")
class rms_of_scaled_numbers(RMSNorm):
    """The largest number is taken out before the squares, so that they cannot overflow."""

    def __call__(self, x: Var, p: Scope) -> Var:
        top = np.maximum(np.abs(x.value).max(axis=-1, keepdims=True), 1e-30)
        small = x.value / top
        root = np.sqrt((small * small).mean(axis=-1, keepdims=True) + self.config.norm_eps / top**2)
        h = small / root

        def backward(g: Array) -> tuple[Array]:
            return ((g - h * (g * h).mean(axis=-1, keepdims=True)) / (root * top),)

        return ops.mul(node(h, (x,), backward), p["weight"])


@variant("M9")
class gate_and_inner_in_one_product(FeedForward):
    """The weights of gate and inner map are stacked; one product gives both."""

    def features(self, x: Var, p: Scope) -> Var:
        if not self.config.gated:
            return super().features(x, p)
        weight = ops.concat([p["gate.weight"], p["inner.weight"]], axis=0)
        both = ops.matmul(x, ops.swap(weight))
        if self.config.bias:
            both = ops.add(both, ops.concat([p["gate.bias"], p["inner.bias"]]))
        F = both.shape[-1] // 2
        return self.gated(ops.columns(both, 0, F), ops.columns(both, F, 2 * F))


@variant("M9")
class silu_by_tanh(Silu):
    """The logistic function as (1 + tanh(x / 2)) / 2, in float64."""

    def __call__(self, x: Var) -> Var:
        share = 0.5 * (1 + np.tanh(0.5 * x.value))
        return ops.elementwise(x, x.value * share, share + x.value * share * (1 - share))
