"""The position-wise feed-forward network, section 3.3 of the paper, and its activations.

The gate is that of https://arxiv.org/abs/2002.05202, section 2.

Shapes: B batch, T positions, D width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.scope import Scope
from attest.reference.tape import Var, node, variance_of

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Activation(Part):
    """A function of each number by itself."""

    def __call__(self, x: Var) -> Var:
        raise NotImplementedError


class Relu(Activation):
    """max(0, x)."""

    def __call__(self, x: Var) -> Var:
        return ops.relu(x)


class Gelu(Activation):
    """x times the normal distribution function of x."""

    def __call__(self, x: Var) -> Var:
        return ops.gelu(x)


class Silu(Activation):
    """x times the logistic function of x."""

    def __call__(self, x: Var) -> Var:
        e = np.exp(-np.abs(x.value))  # cannot overflow
        s = np.where(x.value < 0, e, 1.0) / (1 + e)
        value, slope = x.value * s, s * (1 + x.value * (1 - s))
        variance = None
        if x.eps:
            # The slope is at most 1.0999, at x = 2.4. 3: the sum, the division and the product. The argument
            # of exp may be rounded and exp itself is: 2 eps |x|, which moves s by s (1 - s) times as much.
            rounding = (3 * value) ** 2 + (2 * s * (1 - s) * x.value**2) ** 2
            variance = 1.1**2 * variance_of(x) + x.eps**2 * rounding
        return node(value, (x,), lambda g: (g * slope,), variance)


class GeluTanh(Activation):
    """The approximation of GELU by tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""

    def __call__(self, x: Var) -> Var:
        a, factor = x.value, math.sqrt(2 / math.pi)
        t = np.tanh(factor * (a + 0.044715 * a**3))
        slope = 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * factor * (1 + 3 * 0.044715 * a * a)
        # The slope is at most 1.129. As in the exact GELU, 1 + tanh cancels for negative x, so that the
        # factor is known to eps in absolute terms; the rounded argument of tanh moves it by as much again.
        variance = 1.13**2 * variance_of(x) + (2 * x.eps * a) ** 2 if x.eps else None
        return node(0.5 * a * (1 + t), (x,), lambda g: (g * slope,), variance)


ACTIVATIONS: Mapping[str, type[Activation]] = {
    "relu": Relu,
    "gelu": Gelu,
    "silu": Silu,
    "gelu_tanh": GeluTanh,
}


class FeedForward(Part):
    """W2 act(W1 x + b1) + b2; gated: W2 (act(Wg x + bg) * (W1 x + b1)) + b2."""

    def activation(self, x: Var) -> Var:
        return self.parts.activation(x)

    def gated(self, gate: Var, inner: Var) -> Var:
        """Only the gate is activated."""
        return ops.mul(self.activation(gate), inner)

    def features(self, x: Var, p: Scope) -> Var:
        """(B, T, F): what the last map reads."""
        inner = self.parts.linear(x, p, "inner")
        if self.config.gated:
            return self.gated(self.parts.linear(x, p, "gate"), inner)
        return self.activation(inner)

    def __call__(self, x: Var, p: Scope) -> Var:
        features = self.features(x, p)
        return self.parts.linear(self.parts.dropout(features, "feed_forward"), p, "outer")


@formula("activation")
def _activation(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.activation(inputs["x"])}


@formula("feed_forward")
def _feed_forward(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.feed_forward(inputs["x"], p)}
