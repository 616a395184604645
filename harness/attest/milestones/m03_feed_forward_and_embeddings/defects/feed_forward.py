"""Defects of the feed-forward network. Shapes: x (B, T, D), F inner width."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.contract import Arrays, Gradients
from attest.contract.parameters import Shapes, shapes
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.formulas import Formulas
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach, node


@defect("M3.1")
class no_activation(Formulas):
    """Two linear maps with nothing between them."""

    def activation(self, x: Var) -> Var:
        return x


@defect("M3.1")
class activation_after_second(Formulas):
    """The activation stands after the second map instead of between the two."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        return self.activation(self.linear(self.linear(x, p, "inner"), p, "outer"))


@defect("M3.1")
class activation_twice(Formulas):
    """A second activation after the second map."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        return self.activation(super().feed_forward(x, p))


@defect("M3.1")
class gelu_tanh(Formulas):
    """GELU by its tanh approximation."""

    def activation(self, x: Var) -> Var:
        if self.config.activation != "gelu":
            return super().activation(x)
        a = x.value
        inner = np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))
        slope = 0.5 * (1 + inner) + 0.5 * a * (1 - inner**2) * math.sqrt(2 / math.pi) * (1 + 0.134145 * a**2)
        return ops.elementwise(x, 0.5 * a * (1 + inner), slope)


@defect("M3.1")
class gelu_sigmoid(Formulas):
    """GELU by a sigmoid of 1.702 x."""

    def activation(self, x: Var) -> Var:
        if self.config.activation != "gelu":
            return super().activation(x)
        gate = 1 / (1 + np.exp(-1.702 * x.value))
        return ops.elementwise(x, x.value * gate, gate * (1 + 1.702 * x.value * (1 - gate)))


@defect("M3.1")
class activation_name_ignored(Formulas):
    """ReLU, also where GELU was asked for."""

    def activation(self, x: Var) -> Var:
        return ops.relu(x)


@defect("M3.1")
class relu_leaks(Formulas):
    """A hundredth of the negative side comes through."""

    def activation(self, x: Var) -> Var:
        if self.config.activation == "gelu":
            return super().activation(x)
        slope = np.where(x.value > 0, 1.0, 0.01)
        return ops.elementwise(x, slope * x.value, slope)


@defect("M3.1")
class wrong_inner_width(ReferenceComponent):
    """Twice the width where d_ff is not given."""

    def shapes(self) -> Shapes:
        d_ff = self.config.d_ff or 2 * self.config.d_model
        return shapes(self.operation, self.config.but(d_ff=d_ff))


@defect("M3.1")
class inner_width_ignored(ReferenceComponent):
    """Four times the width, also where d_ff says otherwise."""

    def shapes(self) -> Shapes:
        return shapes(self.operation, self.config.but(d_ff=None))


@defect("M3.1")
class inner_bias_missing(Formulas):
    """The first map has no bias."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        inner = self.activation(ops.matmul(x, ops.swap(p["inner.weight"])))
        return self.linear(self.dropout(inner, "feed_forward"), p, "outer")


@defect("M3.1")
class residual_inside_the_network(Formulas):
    """The network adds its own input, which the layer adds again."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        return ops.add(x, super().feed_forward(x, p))


@defect("M3.2", "M3.1")
class ffn_mixes_positions(Formulas):
    """Each position also reads the one before it: a convolution wider than one."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        before = np.roll(x.value, 1, axis=1)
        before[:, 0] = 0.0
        return super().feed_forward(ops.add(x, 0.5 * before), p)


@defect("M3.2")
class ffn_mixes_rows(Formulas):
    """The mean over the batch is taken out on the way in."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        return super().feed_forward(ops.add(x, -0.5 * x.value.mean(axis=0, keepdims=True)), p)


@defect("M3.2", "M3.1")
class ffn_knows_the_position(Formulas):
    """The weights are scaled by where the vector stands."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        return ops.scale(super().feed_forward(x, p), 1 + 0.01 * np.arange(x.shape[1])[:, None])


@defect("M3.2", "M3.1")
class ffn_flattens(Formulas):
    """Positions are folded into the batch in the wrong order on the way back."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        B, T, D = x.shape
        out = super().feed_forward(x, p)
        return ops.swap(ops.reshape(out, (T, B, D)), 0, 1)


@defect("M3.10")
class activation_passes_all_gradients(Formulas):
    """Backward, the activation is taken for the identity."""

    def activation(self, x: Var) -> Var:
        right = super().activation(x)
        return node(right.value, (x,), lambda g: (g,), right.variance)


@defect("M3.10")
class input_gradient_cut(Formulas):
    """No gradient passes through the network to its input."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        return super().feed_forward(detach(x), p)


@defect("M3.10")
class bias_gradient_of_one_row(ReferenceComponent):
    """Gradients of the biases come from the first sentence only."""

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Gradients:
        found = super().gradients(inputs, cotangents)
        if self.operation != "feed_forward":
            return found
        first = super().gradients(
            {n: x[:1] for n, x in inputs.items()}, {n: c[:1] for n, c in cotangents.items()}
        )
        biases = {n: g for n, g in first.parameters.items() if n.endswith("bias")}
        return Gradients(found.inputs, {**found.parameters, **biases})


@defect("M3.10a")
class works_in_the_callers_array(ReferenceComponent):
    """The first map's input is overwritten to save memory."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if self.operation == "feed_forward":
            inputs["x"] *= 2
        return found


@defect("M3.10a")
class returns_one_buffer(ReferenceComponent):
    """Calls of one shape write into the same output array."""

    kept: dict[str, Array] | None = None

    def release(self, outputs: Any) -> dict[str, Array]:
        found = super().release(outputs)
        if self.kept is None or any(self.kept[name].shape != value.shape for name, value in found.items()):
            self.kept = found
        for name, value in found.items():
            self.kept[name][...] = value
        return self.kept
