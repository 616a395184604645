"""Correct attention in unusual clothes: every criterion of M1 and M2 must let these live.

Shapes: q (..., T, d), k and v (..., S, d).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Config
from attest.judging import split_sums
from attest.judging.catalogue import variant
from attest.milestones.m01_attention.defects.masks import Filled
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.implementation import ReferenceImplementation
from attest.reference.parts.attention import Attention
from attest.reference.parts.linear import Linear
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach, node


@variant("M1", "M2")
class fill_minus_1e9_then_zeroed(Filled):
    """Hidden scores become -1e9, and rows that see no key are zeroed afterwards."""

    fill = -1e9


@variant("M1", "M2")
class fill_minus_infinity_then_zeroed(Attention):
    """Hidden scores become minus infinity, and the rows that see no key are zeroed, backwards too."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is None:
            return super().weights_from(scores, None, where)
        raised = np.where(allowed, scores.value, -np.inf)
        raised = np.exp(raised - raised.max(-1, keepdims=True))
        p = np.nan_to_num(raised / raised.sum(-1, keepdims=True))
        return node(p, (scores,), lambda g: (p * (g - (g * p).sum(-1, keepdims=True)),))


@variant("M1", "M2")
class lowest_number_added(Attention):
    """The most negative float32 is added to hidden scores, and hidden weights are set to zero."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is None:
            return super().weights_from(scores, None, where)
        lowest = float(np.finfo(np.float32).min)
        shifted = ops.add(ops.where(allowed, scores, 0.0), np.where(allowed, 0.0, lowest))
        return ops.where(np.asarray(allowed), super().weights_from(shifted, None, where), 0.0)


@variant("M1", "M2")
class mask_by_where(Attention):
    """The exponentials, not the scores, are selected by the mask."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        seen = np.ones(scores.shape, bool) if allowed is None else np.broadcast_to(allowed, scores.shape)
        top = np.max(scores.value, axis=-1, keepdims=True, where=seen, initial=-1e300)
        raised = np.where(seen, np.exp(np.where(seen, scores.value - top, 0.0)), 0.0)
        total = raised.sum(-1, keepdims=True)
        p = np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)
        return node(p, (scores,), lambda g: (p * (g - (g * p).sum(-1, keepdims=True)),))


@variant("M1", "M2")
class by_einsum(Attention):
    """Products are written as einsum; gradients too."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        value = np.einsum("...td,...sd->...ts", q.value, k.value)
        return node(
            value,
            (q, k),
            lambda g: (
                np.einsum("...ts,...sd->...td", g, k.value),
                np.einsum("...ts,...td->...sd", g, q.value),
            ),
        )


@variant("M1", "M2")
class query_scaled_before_the_product(Attention):
    """The factor 1 / sqrt(d_k) is applied to the queries, before the scores."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        return super().scores(ops.scale(q, q.shape[-1] ** -0.5), k, where)

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return scores


@variant("M1", "M2")
class constant_added_to_every_score(Attention):
    """Every score is raised by 1, which the softmax takes out again."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.add(super().scale(scores, q, k, where), 1.0)


@variant("M1", "M2")
class blocked_softmax(Attention):
    """The softmax runs over blocks of 64 keys with a running maximum, as fused kernels do."""

    block = 64

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        x = scores.value if allowed is None else np.where(allowed, scores.value, -np.inf)
        top = np.full((*x.shape[:-1], 1), -np.inf)
        total = np.zeros_like(top)
        for start in range(0, x.shape[-1], self.block):
            part = x[..., start : start + self.block]
            higher = np.maximum(top, part.max(-1, keepdims=True))
            safe = np.where(higher == -np.inf, 0.0, higher)
            total = total * np.exp(top - safe) + np.exp(part - safe).sum(-1, keepdims=True)
            top = higher
        p = np.exp(x - np.where(top == -np.inf, 0.0, top)) / np.where(total == 0, 1.0, total)
        return node(p, (scores,), lambda g: (p * (g - (g * p).sum(-1, keepdims=True)),))


def rounded_to(dtype: str, x: Var) -> Var:
    """x as an implementation of this dtype holds it between two operations."""
    narrow = x.value.astype(np.float64 if dtype == "float64" else np.float32)
    return node(narrow.astype(np.float64), (x,), lambda g: (g,))


class RoundedLinear(Linear):
    """A linear map whose result is rounded."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        return rounded_to(self.config.dtype, super().__call__(x, p, name))


@variant("M1", "M2", also=(RoundedLinear,))
class float32_all_the_way(Attention):
    """Scores, weights and products are rounded to the asked dtype at every step."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        return rounded_to(self.config.dtype, super().scores(q, k, where))

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return rounded_to(self.config.dtype, super().scale(scores, q, k, where))

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        return rounded_to(self.config.dtype, super().weights_from(scores, allowed, where))


class SplitLinear(Linear):
    """A linear map whose sums are split."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        dtype, bias = self.config.dtype, p.get(f"{name}.bias")
        y = split_sums.linear(x, p[f"{name}.weight"], dtype)
        return y if bias is None else split_sums.shifted(y, bias, dtype)


@variant("M1", "M2", "M3", "M4", also=(SplitLinear,))
class split_sums_in_a_fixed_order(Attention):
    """Products are added in parts, in an order that the number of terms decides, as GPU libraries do."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        return split_sums.matmul(q, ops.swap(k), self.config.dtype)

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        tame = np.abs(v.value) <= 1e100  # as in ops.mix: nan behind a weight of zero stays out
        mixed = split_sums.matmul(weights, ops.where(tame, v, 0.0), self.config.dtype)
        reached = (weights.value != 0).astype(float) @ (~tame).astype(float)
        return ops.where(reached == 0, mixed, np.nan)


@variant("M1", "M2")
class float64_inside(ReferenceComponent):
    """Computes in float64 and offers float32 only."""

    def on_tape(self, given: Mapping[str, Any], gradient: bool = False) -> dict[str, Any]:
        wide = {n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in given.items()}
        return super().on_tape(wide, gradient)


@variant("M1", "M2")
class without_weights(ReferenceComponent):
    """Returns the output only."""

    def release(self, outputs: Mapping[str, Var]) -> dict[str, Array]:
        return {n: x for n, x in super().release(outputs).items() if n != "weights"}


@variant("M1", "M2")
class without_biases(ReferenceImplementation):
    """Has no biases: a config that asks for them is answered with NotImplementedError."""

    def build(self, operation: str, config: Config, kind: Any = None) -> Any:
        if config.bias and operation in ("qkv_projection", "multi_head_attention"):
            raise NotImplementedError("only bias=False is offered")
        return super().build(operation, config, kind)


@variant("M1", "M2")
class read_only_results(ReferenceComponent):
    """Results cannot be written to."""

    def release(self, outputs: Mapping[str, Var]) -> dict[str, Array]:
        results = super().release(outputs)
        for array in results.values():
            array.flags.writeable = False
        return results


@variant("M1", "M2")
class transposed_results(ReferenceComponent):
    """Results are views of arrays that are stored with their last two axes exchanged."""

    def release(self, outputs: Mapping[str, Var]) -> dict[str, Array]:
        return {n: _turned(x) if x.ndim > 1 else x for n, x in super().release(outputs).items()}


def _turned(x: Array) -> Array:
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


@variant("M1", "M2")
class transposed_storage(ReferenceComponent):
    """Weights are held as (in, out) and transposed on the way in and out."""

    def load(self, parameters: Any) -> None:
        super().load(parameters)
        self._turned = {n: np.ascontiguousarray(x.T) for n, x in self.values.items()}
        self._values = {n: x.T for n, x in self._turned.items()}


@variant("M1", "M2")
class masks_of_integers_refused(ReferenceComponent):
    """A mask that is not boolean is refused."""

    def accept(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        mask = inputs.get("mask")
        if mask is not None and np.asarray(mask).dtype != np.bool_:
            raise ValueError(f"mask has dtype {np.asarray(mask).dtype}; give booleans")
        return super().accept(inputs)


@variant("M1")
class a_plain_function_for_attention(ReferenceImplementation):
    """Attention is a function without gradients, modes or parameters."""

    def attention(self, config: Config) -> Any:
        component = self.build("attention", config)
        return lambda **inputs: component(**inputs)


@variant("M1", "M2")
class gradient_through_the_output_alone(Attention):
    """The weights returned are a copy that carries no gradient."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        found = super().__call__(q, k, v, where)
        return {**found, "weights": detach(found["weights"])}
