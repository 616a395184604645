"""Defects of the gated feed-forward network and its activations. Shapes: x (B, T, D), F inner width."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.feed_forward import FeedForward, GeluTanh, Silu
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach, node


@defect("M9.3")
class gate_up_swapped(FeedForward):
    """The inner features are activated and the gate is not."""

    def gated(self, gate: Var, inner: Var) -> Var:
        return super().gated(inner, gate)


@defect("M9.3")
class silu_on_both(FeedForward):
    """Gate and inner features are both activated."""

    def gated(self, gate: Var, inner: Var) -> Var:
        return super().gated(gate, self.activation(inner))


@defect("M9.3")
class gelu_for_silu(Silu):
    """GELU where SiLU was asked for."""

    def __call__(self, x: Var) -> Var:
        return ops.gelu(x)


@defect("M9.3")
class sigmoid_for_silu(Silu):
    """The gate is the logistic function of its map, as in the first gated linear units."""

    def __call__(self, x: Var) -> Var:
        s = 1 / (1 + np.exp(-x.value))
        return ops.elementwise(x, s, s * (1 - s))


@defect("M9.3")
class gelu_for_gelu_tanh(GeluTanh):
    """The exact GELU where its approximation was asked for."""

    def __call__(self, x: Var) -> Var:
        return ops.gelu(x)


@defect("M9.3")
class no_gate(FeedForward):
    """The gate is a parameter that nothing reads."""

    def gated(self, gate: Var, inner: Var) -> Var:
        return self.activation(inner)


@defect("M9.3")
class gate_added(FeedForward):
    """The activated gate is added to the inner features."""

    def gated(self, gate: Var, inner: Var) -> Var:
        return ops.add(self.activation(gate), inner)


@defect("M9.3")
class gate_without_activation(FeedForward):
    """The gate is linear."""

    def gated(self, gate: Var, inner: Var) -> Var:
        return ops.mul(gate, inner)


@defect("M9.3")
class value_first_split(FeedForward):
    """One product for both maps, of which the first half, the gate's, is taken for the value."""

    def features(self, x: Var, p: Scope) -> Var:
        if not self.config.gated:
            return super().features(x, p)
        both = ops.concat([self.parts.linear(x, p, name) for name in ("gate", "inner")])
        F = both.shape[-1] // 2
        return self.gated(gate=ops.columns(both, F, 2 * F), inner=ops.columns(both, 0, F))


@defect("M9.3")
class split_by_turns(FeedForward):
    """One product for both maps, of which even features are taken for the gate and odd ones for the value."""

    def features(self, x: Var, p: Scope) -> Var:
        if not self.config.gated:
            return super().features(x, p)
        both = ops.concat([self.parts.linear(x, p, name) for name in ("gate", "inner")])
        return self.gated(
            ops.index(both, (..., slice(0, None, 2))), ops.index(both, (..., slice(1, None, 2)))
        )


@defect("M9.17")
class gradient_stops_at_the_gate(FeedForward):
    """No gradient passes through the gate."""

    def gated(self, gate: Var, inner: Var) -> Var:
        return super().gated(detach(gate), inner)


@defect("M9.17", "M10.1", "M10.2")
class silu_without_product_rule(Silu):
    """Backward, the slope of SiLU is the logistic function alone."""

    def __call__(self, x: Var) -> Var:
        share = 1 / (1 + np.exp(-x.value))
        return node(super().__call__(x).value, (x,), lambda g: (g * share,))


@defect("M9.18")
class unknown_gate_is_relu(ReferenceComponent):
    """With a gate, an unknown activation is taken for ReLU."""

    def check_choices(self) -> None:
        if not self.config.gated:
            super().check_choices()


@defect("M9.19")
class gates_in_the_callers_array(ReferenceComponent):
    """With a gate, the input is overwritten to save memory."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if self.operation == "feed_forward" and self.config.gated:
            inputs["x"] *= 2
        return found
