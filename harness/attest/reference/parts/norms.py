"""Normalisation of a vector, and the residual connection around a sublayer: section 5.4 and 3.1 of the paper.

The norm by the root of the mean square is that of https://arxiv.org/abs/1910.07467, equation 4.

Shapes: B batch, T positions, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node, rounded, tracks_error, unbroadcast, variance_of

if TYPE_CHECKING:
    from attest.reference.assembly import Parts

Sublayer = Callable[[Var], Var]


class LayerNorm(Part):
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the features of each position."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], p["bias"], self.config.norm_eps)


class RMSNorm(Part):
    """x / sqrt(mean(x^2) + eps) * weight over the features of each position; no mean is subtracted."""

    def __call__(self, x: Var, p: Scope) -> Var:
        weight = p["weight"]
        r = 1.0 / np.sqrt((x.value * x.value).mean(axis=-1, keepdims=True) + self.config.norm_eps)
        h = rounded(x.value * r)

        def backward(g: Array) -> tuple[Array, Array]:
            """An input moves its own output, and through the root all outputs of its row."""
            gh = g * weight.value
            return r * (gh - h * (gh * h).mean(axis=-1, keepdims=True)), unbroadcast(g * h, weight.shape)

        variance = self.variance(x, weight, h, r) if tracks_error(x, weight) else None
        return node(h * weight.value, (x, weight), backward, variance)

    def variance(self, x: Var, weight: Var, h: Array, r: Array) -> Array:
        """The variance of the output's error: what the inputs bring, and the roundings on the way."""
        eps, width = tracks_error(x, weight), x.shape[-1]
        # dy = r w (dx - h mean(h dx)); of n independent errors a mean has 1/n of the average variance.
        inherited = variance_of(x) + h * h * (h * h * variance_of(x)).mean(axis=-1, keepdims=True) / width
        # A sum of n squares in sequence is rounded n times, by eps of a partial sum that is on average half
        # the whole: about sqrt(n) / 2 together, halved again by the root. 3: the root, the division and the
        # product with the weight.
        own = ((3 + math.sqrt(width) / 4) * eps * h * weight.value) ** 2
        total: Array = r * r * weight.value**2 * inherited + own + variance_of(weight) * h * h
        return total


class Residual(Part):
    """post: LN(x + f(x)); pre: x + f(LN(x)). Dropout on the sublayer's output."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return ops.add(x, self.parts.dropout(sublayer(self.parts.norm(x, norm)), "sublayer"))
        return self.parts.norm(ops.add(x, self.parts.dropout(sublayer(x), "sublayer")), norm)


@formula("layer_norm")
def _layer_norm(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.norm(inputs["x"], p)}


@formula("rms_norm")
def _rms_norm(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.rms_norm(inputs["x"], p)}
