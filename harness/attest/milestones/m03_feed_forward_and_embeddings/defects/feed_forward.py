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
from attest.reference.parts.feed_forward import FeedForward, Gelu, Relu
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach, node


@defect("M3.1")
class no_activation(FeedForward):
    """Two linear maps with nothing between them."""

    def activation(self, x: Var) -> Var:
        return x


@defect("M3.1")
class activation_after_second(FeedForward):
    """The activation stands after the second map instead of between the two."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return self.activation(self.parts.linear(self.parts.linear(x, p, "inner"), p, "outer"))


@defect("M3.1")
class activation_twice(FeedForward):
    """A second activation after the second map."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return self.activation(super().__call__(x, p))


@defect("M3.1")
class gelu_tanh(Gelu):
    """GELU by its tanh approximation."""

    def __call__(self, x: Var) -> Var:
        a = x.value
        inner = np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))
        slope = 0.5 * (1 + inner) + 0.5 * a * (1 - inner**2) * math.sqrt(2 / math.pi) * (1 + 0.134145 * a**2)
        return ops.elementwise(x, 0.5 * a * (1 + inner), slope)


@defect("M3.1")
class gelu_sigmoid(Gelu):
    """GELU by a sigmoid of 1.702 x."""

    def __call__(self, x: Var) -> Var:
        gate = 1 / (1 + np.exp(-1.702 * x.value))
        return ops.elementwise(x, x.value * gate, gate * (1 + 1.702 * x.value * (1 - gate)))


@defect("M3.1")
class activation_name_ignored(Gelu):
    """ReLU, also where GELU was asked for."""

    def __call__(self, x: Var) -> Var:
        return ops.relu(x)


@defect("M3.1")
class relu_leaks(Relu):
    """A hundredth of the negative side comes through."""

    def __call__(self, x: Var) -> Var:
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
class inner_bias_missing(FeedForward):
    """The first map has no bias."""

    def __call__(self, x: Var, p: Scope) -> Var:
        inner = self.activation(ops.matmul(x, ops.swap(p["inner.weight"])))
        return self.parts.linear(self.parts.dropout(inner, "feed_forward"), p, "outer")


@defect("M3.1")
class residual_inside_the_network(FeedForward):
    """The network adds its own input, which the layer adds again."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.add(x, super().__call__(x, p))


@defect("M3.2", "M3.1")
class ffn_mixes_positions(FeedForward):
    """Each position also reads the one before it: a convolution wider than one."""

    def __call__(self, x: Var, p: Scope) -> Var:
        before = np.roll(x.value, 1, axis=1)
        before[:, 0] = 0.0
        return super().__call__(ops.add(x, 0.5 * before), p)


@defect("M3.2")
class ffn_mixes_rows(FeedForward):
    """The mean over the batch is taken out on the way in."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return super().__call__(ops.add(x, -0.5 * x.value.mean(axis=0, keepdims=True)), p)


@defect("M3.2", "M3.1")
class ffn_knows_the_position(FeedForward):
    """The weights are scaled by where the vector stands."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.scale(super().__call__(x, p), 1 + 0.01 * np.arange(x.shape[1])[:, None])


@defect("M3.2", "M3.1")
class ffn_flattens(FeedForward):
    """Positions are folded into the batch in the wrong order on the way back."""

    def __call__(self, x: Var, p: Scope) -> Var:
        B, T, D = x.shape
        out = super().__call__(x, p)
        return ops.swap(ops.reshape(out, (T, B, D)), 0, 1)


@defect("M3.10")
class activation_passes_all_gradients(FeedForward):
    """Backward, the activation is taken for the identity."""

    def activation(self, x: Var) -> Var:
        right = super().activation(x)
        return node(right.value, (x,), lambda g: (g,), right.variance)


@defect("M3.10")
class input_gradient_cut(FeedForward):
    """No gradient passes through the network to its input."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return super().__call__(detach(x), p)


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
