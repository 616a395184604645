"""Defects of single layers and of their backward passes.

Shapes: x (B, T, D), logits (B, T, V).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.embedding import Embedding
from attest.reference.parts.feed_forward import Gelu, Relu
from attest.reference.parts.linear import Linear
from attest.reference.parts.norms import LayerNorm, RMSNorm
from attest.reference.parts.probabilities import CrossEntropy, Softmax
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node, unbroadcast


def _with_backward(right: Var, parents: tuple[Var, ...], backward: Any) -> Var:
    """What a forward pass gives, with another backward pass."""
    return node(right.value, parents, backward, right.variance)


@defect("M10.1", "M10.2")
class softmax_jacobian_diagonal(Softmax):
    """Backward, each entry is taken to move itself only: dy y (1 - y)."""

    def __call__(self, x: Var) -> Var:
        right = super().__call__(x)
        y = right.value
        return _with_backward(right, (x,), lambda g: (g * y * (1 - y),))


@defect("M10.1", "M10.2")
class softmax_gradient_passes_through(Softmax):
    """Backward, softmax is taken for the identity, as if it stood inside a cross-entropy."""

    def __call__(self, x: Var) -> Var:
        return _with_backward(super().__call__(x), (x,), lambda g: (g,))


@defect("M10.11")
class softmax_overflows(Softmax):
    """The largest entry is not taken out before the exponential."""

    def __call__(self, x: Var) -> Var:
        raised = ops.elementwise(x, np.exp(x.value), np.exp(x.value))
        total = raised.value.sum(axis=-1, keepdims=True)
        return ops.where(np.ones(x.shape, bool), ops.softmax(x), 0.0) if np.isfinite(total).all() else raised


@defect("M10.11")
class softmax_over_rows(Softmax):
    """The sum runs over the positions instead of the entries."""

    def __call__(self, x: Var) -> Var:
        return ops.swap(ops.softmax(ops.swap(x)))


@defect("M10.1")
class gelu_slope_without_density(Gelu):
    """The slope is taken for Phi(x) alone."""

    def __call__(self, x: Var) -> Var:
        cdf = 0.5 * (1 + ops.erf(x.value / math.sqrt(2.0)))
        return _with_backward(super().__call__(x), (x,), lambda g: (g * cdf,))


@defect("M10.11")
class gelu_by_tanh_named_exact(Gelu):
    """The approximation by tanh answers for the exact GELU."""

    def __call__(self, x: Var) -> Var:
        a = x.value
        t = np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))
        return ops.scale(x, 0.5 * (1 + t))


@defect("M10.1")
class relu_passes_every_gradient(Relu):
    """Backward, ReLU is forgotten."""

    def __call__(self, x: Var) -> Var:
        return _with_backward(super().__call__(x), (x,), lambda g: (g,))


@defect("M10.11")
class relu_lets_a_hundredth_through(Relu):
    """Negative numbers pass with a hundredth of themselves."""

    def __call__(self, x: Var) -> Var:
        return ops.scale(x, np.where(x.value > 0, 1.0, 0.01))


@defect("M10.1", "M10.2")
class linear_gradient_not_transposed(Linear):
    """The gradient of the weight is the transpose of what it should be, where that has the same shape."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        right, weight = super().__call__(x, p, name), p[f"{name}.weight"]
        if weight.shape[0] != weight.shape[1] or not weight.needs_gradient:
            return right
        again = node(weight.value, (weight,), lambda g: (g.swapaxes(-1, -2),))
        bias = p.get(f"{name}.bias")
        y = ops.matmul(x, ops.swap(again))
        return y if bias is None else ops.add(y, bias)


@defect("M10.1", "M10.2")
class bias_gradient_averaged(Linear):
    """The gradient of the bias is the mean over positions instead of the sum."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        right, bias = super().__call__(x, p, name), p.get(f"{name}.bias")
        if bias is None or not bias.needs_gradient:
            return right
        rows = max(1, int(np.prod(x.shape[:-1])))
        averaged = node(bias.value, (bias,), lambda g: (g / rows,))
        return ops.add(ops.matmul(x, ops.swap(p[f"{name}.weight"])), averaged)


@defect("M10.11")
class linear_weight_read_as_inputs_by_outputs(Linear):
    """x W instead of x W^T where the weight is square, as a code base with weights (in, out) has it."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        weight, bias = p[f"{name}.weight"], p.get(f"{name}.bias")
        square = weight.shape[0] == weight.shape[1]
        y = ops.matmul(x, weight if square else ops.swap(weight))
        return y if bias is None else ops.add(y, bias)


@defect("M10.1", "M10.2")
class rms_norm_third_term_missing(RMSNorm):
    """Backward, the root is taken for a constant: what goes through it is missing."""

    def __call__(self, x: Var, p: Scope) -> Var:
        weight = p["weight"]
        r = 1.0 / np.sqrt((x.value * x.value).mean(axis=-1, keepdims=True) + self.config.norm_eps)

        def backward(g: Array) -> tuple[Array, Array]:
            return g * weight.value * r, unbroadcast(g * x.value * r, weight.shape)

        return _with_backward(super().__call__(x, p), (x, weight), backward)


@defect("M10.1", "M10.2")
class layer_norm_mean_taken_for_constant(LayerNorm):
    """Backward, what goes through the mean is missing."""

    def __call__(self, x: Var, p: Scope) -> Var:
        weight, bias = p["weight"], p["bias"]
        centred = x.value - x.value.mean(axis=-1, keepdims=True)
        r = 1.0 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + self.config.norm_eps)
        h = centred * r

        def backward(g: Array) -> tuple[Array, Array, Array]:
            gh = g * weight.value
            dx = r * (gh - h * (gh * h).mean(axis=-1, keepdims=True))
            return dx, unbroadcast(g * h, weight.shape), unbroadcast(g, bias.shape)

        return _with_backward(super().__call__(x, p), (x, weight, bias), backward)


@defect("M10.1", "M10.2")
class cross_entropy_gradient_not_averaged(CrossEntropy):
    """Backward, the mean over positions is taken for a sum."""

    def __call__(self, logits: Var, labels: Array) -> Var:
        right = super().__call__(logits, labels)
        count = max(1, labels.size)
        return node(right.value, (right,), lambda g: (g * count,), right.variance)


@defect("M10.11")
class log_of_a_softmax(CrossEntropy):
    """The logarithm of a finished softmax: minus infinity, cut off at 1e-12, for a class that is unlikely."""

    def log_probabilities(self, logits: Var) -> Var:
        p = ops.softmax(logits)
        cut = np.maximum(p.value, 1e-12)
        return ops.elementwise(p, np.log(cut), 1 / cut)


@defect("M10.11")
class cross_entropy_skips_class_zero(CrossEntropy):
    """Labels of 0 are taken for padding and not counted."""

    def __call__(self, logits: Var, labels: Array) -> Var:
        counted = labels != 0
        losses = ops.where(counted, self.losses(logits, labels), 0.0)
        return ops.scale(ops.total(losses), 1.0 / max(int(counted.sum()), 1))


@defect("M10.11")
class cross_entropy_in_bits(CrossEntropy):
    """The logarithm has base 2."""

    def log_probabilities(self, logits: Var) -> Var:
        return ops.scale(super().log_probabilities(logits), 1 / math.log(2.0))


@defect("M10.2")
class embedding_overwrites(Embedding):
    """Backward, of a token that occurs twice only the last place counts."""

    def embed(self, ids: Array, table: Var) -> Var:
        def backward(g: Array) -> tuple[Array]:
            found = np.zeros(table.shape)
            found[ids] = np.where((ids != self.config.pad_id)[..., None], g, 0.0)
            return (found,)

        return node(table.value[ids], (table,), backward)


@defect("M10.3")
class second_backward_overwrites(ReferenceComponent):
    """grad = new instead of grad += new."""

    def add_gradients(self, inputs: Arrays, cotangents: Arrays) -> None:
        self._gradient_sum = dict(self.gradients(inputs, cotangents).parameters)


@defect("M10.3")
class zeroing_forgets_the_bias(ReferenceComponent):
    """zero_gradients clears the weights and leaves the biases."""

    def zero_gradients(self) -> None:
        held = self.held_gradients()
        self._gradient_sum = {n: g if n.endswith("bias") else np.zeros_like(g) for n, g in held.items()}


@defect("M10.3")
class held_gradients_are_averaged(ReferenceComponent):
    """Each further pass enters with half: a running mean instead of a sum."""

    def add_gradients(self, inputs: Arrays, cotangents: Arrays) -> None:
        before = self._gradient_sum
        super().add_gradients(inputs, cotangents)
        if before is not None and self._gradient_sum is not None:
            self._gradient_sum = {n: g / 2 for n, g in self._gradient_sum.items()}


@defect("M10.6")
class backward_draws_another_mask(ReferenceComponent):
    """The backward pass runs forward again, with fresh noise."""

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Any:
        before = self.seed
        if isinstance(self.seed, int):
            self.seed += 1
        try:
            return super().gradients(inputs, cotangents)
        finally:
            self.seed = before


@defect("M10.12")
class linear_broadcasts_one_feature(ReferenceComponent):
    """A single feature is spread over the whole width."""

    def accept(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        x = np.asarray(inputs.get("x", ()))
        if self.operation == "linear" and x.ndim == 3 and x.shape[-1] == 1:
            return {"x": np.broadcast_to(x, (*x.shape[:-1], self.config.d_model)).copy()}
        return super().accept(inputs)


@defect("M10.12")
class negative_labels_count_from_the_end(ReferenceComponent):
    """-1 is the last class."""

    def check_ids(self, name: str, ids: Array, size: int) -> None:
        wraps = self.operation == "cross_entropy" and ids.size and -size <= ids.min() < 0
        super().check_ids(name, ids % size if wraps else ids, size)


@defect("M10.13")
class activation_in_place(ReferenceComponent):
    """The output is written over the input to save memory."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if self.operation == "activation":
            inputs["x"][...] = found["output"]
        return found


@defect("M10.11")
class classes_beyond_255_wrap(CrossEntropy):
    """Labels are kept in eight bits."""

    def __call__(self, logits: Var, labels: Array) -> Var:
        return super().__call__(logits, labels.astype(np.uint8).astype(np.int64))


@defect("M10.11")
class softmax_forgets_a_tail(Softmax):
    """Behind the last whole 64 entries of a long row, entries do not count in the sum."""

    def __call__(self, x: Var) -> Var:
        size = x.shape[-1]
        whole = size // 64 * 64 or size
        raised = ops.exp(ops.add(x, -x.value.max(axis=-1, keepdims=True)))
        total = raised.value[..., :whole].sum(axis=-1, keepdims=True)
        return ops.scale(raised, 1 / total)
