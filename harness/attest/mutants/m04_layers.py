"""Defects of layer normalisation and of encoder and decoder layers.

Shapes: x (B, T, D), memory (B, S, D), masks True where a query may attend.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.mutants.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.formulas import Formulas
from attest.reference.layers import Sublayer
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, constant, node


class _OtherNorm(Formulas):
    """A norm written out step by step, with one step to be replaced."""

    axis: int | tuple[int, ...] = -1

    def spread(self, centred: Var) -> Var:
        """(..., 1): what the centred values are divided by."""
        return power(ops.add(mean(ops.mul(centred, centred), self.axis), self.config.norm_eps), 0.5)

    def centre(self, x: Var) -> Var:
        return ops.sub(x, mean(x, self.axis))

    def layer_norm(self, x: Var, p: Scope) -> Var:
        centred = self.centre(x)
        normed = ops.mul(centred, power(self.spread(centred), -1.0))
        return ops.add(ops.mul(normed, p["weight"]), p["bias"])


def mean(a: Var, axis: int | tuple[int, ...]) -> Var:
    """The mean over some axes, kept with length 1."""
    value = a.value.mean(axis=axis, keepdims=True)
    share = value.size / max(a.value.size, 1)
    return node(value, (a,), lambda g: (np.broadcast_to(g * share, a.shape),))


def power(a: Var, exponent: float) -> Var:
    """Each element to a power."""
    return ops.elementwise(a, a.value**exponent, exponent * a.value ** (exponent - 1.0))


@defect("M4.1", "M4.1a", "M4.2", "M4.3")
class residual_missing(Formulas):
    """The sublayer's output replaces its input instead of being added to it."""

    def residual(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return self.dropout(sublayer(self.layer_norm(x, norm)), "sublayer")
        return self.layer_norm(self.dropout(sublayer(x), "sublayer"), norm)


@defect("M4.1", "M4.1a", "M4.3", "M4.3a")
class norm_missing(Formulas):
    """The sum of a sublayer and its input is not normalised."""

    def residual(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        return ops.add(x, self.dropout(sublayer(x), "sublayer"))


@defect("M4.1", "M4.1a", "M4.3")
class norm_before_residual(Formulas):
    """post: x + LN(f(x)) instead of LN(x + f(x))."""

    def residual(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return super().residual(x, sublayer, norm)
        return ops.add(x, self.layer_norm(self.dropout(sublayer(x), "sublayer"), norm))


@defect("M4.1", "M4.2", "M4.3a")
class residual_of_normed_input(Formulas):
    """What is added to the sublayer's output is the normalised input."""

    def residual(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        normed = self.layer_norm(x, norm)
        joined = ops.add(normed, self.dropout(sublayer(normed), "sublayer"))
        return joined if self.config.norm == "pre" else self.layer_norm(joined, norm)


@defect("M4.1", "M4.2")
class feed_forward_residual_from_layer_input(Formulas):
    """The second residual of an encoder layer starts from the layer's input, not from the first sublayer."""

    def encoder_layer(self, x: Var, mask: Array | None, p: Scope) -> Var:
        attended = self.residual(
            x, lambda y: self.self_attention(y, mask, p.at("self_attention"), causal=False), p.at("norm0")
        )
        return self.residual(
            x, lambda y: self.feed_forward(self._inner(attended, p), p.at("feed_forward")), p.at("norm1")
        )

    def _inner(self, attended: Var, p: Scope) -> Var:
        return self.layer_norm(attended, p.at("norm1")) if self.config.norm == "pre" else attended


@defect("M4.1", "M4.2")
class feed_forward_beside_attention(Formulas):
    """Attention and feed-forward network both read the layer's input, side by side."""

    def encoder_layer(self, x: Var, mask: Array | None, p: Scope) -> Var:
        def both(y: Var) -> Var:
            attended = self.self_attention(y, mask, p.at("self_attention"), causal=False)
            return ops.add(attended, self.feed_forward(y, p.at("feed_forward")))

        return self.residual(x, both, p.at("norm0"))


@defect("M4.1", "M4.1a")
class norms_exchanged(Formulas):
    """The first sublayer uses the second norm, and the second the first."""

    def encoder_layer(self, x: Var, mask: Array | None, p: Scope) -> Var:
        x = self.residual(
            x, lambda y: self.self_attention(y, mask, p.at("self_attention"), causal=False), p.at("norm1")
        )
        return self.residual(x, lambda y: self.feed_forward(y, p.at("feed_forward")), p.at("norm0"))


@defect("M4.1", "M4.2", "M4.3")
class sublayer_scaled_down(Formulas):
    """The sublayer's output is halved before it is added."""

    def residual(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        return super().residual(x, lambda y: ops.scale(sublayer(y), 0.5), norm)


@defect("M4.2", "M4.1", "M4.1a")
class pre_post_swapped(Formulas):
    """norm="pre" gives the post-norm layer and the other way round."""

    def residual(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return self.layer_norm(ops.add(x, self.dropout(sublayer(x), "sublayer")), norm)
        return ops.add(x, self.dropout(sublayer(self.layer_norm(x, norm)), "sublayer"))


@defect("M4.2", "M4.3")
class placement_ignored(Formulas):
    """The norm always comes after the sum, whatever is configured."""

    def residual(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        return self.layer_norm(ops.add(x, self.dropout(sublayer(x), "sublayer")), norm)


@defect("M4.2", "M4.3", "M4.3a")
class memory_normalised_again(Formulas):
    """pre: the cross-attention's norm is applied to the encoder's output too."""

    def decoder_layer(
        self, x: Var, memory: Var, mask: Array | None, memory_mask: Array | None, p: Scope
    ) -> Var:
        if self.config.norm == "pre":
            memory = self.layer_norm(memory, p.at("norm1"))
        return super().decoder_layer(x, memory, mask, memory_mask, p)


class _OtherDecoder(Formulas):
    """A decoder layer in three methods, of which a defect replaces one."""

    def decoder_layer(
        self, x: Var, memory: Var, mask: Array | None, memory_mask: Array | None, p: Scope
    ) -> Var:
        for step in self.order:
            x = step(self, x, memory, mask, memory_mask, p)
        return x

    def read_past(self, x: Var, memory: Var, mask: Any, memory_mask: Any, p: Scope) -> Var:
        return self.residual(
            x, lambda y: self.decoder_self_attention(y, mask, p.at("self_attention")), p.at("norm0")
        )

    def read_memory(self, x: Var, memory: Var, mask: Any, memory_mask: Any, p: Scope) -> Var:
        scope = p.at("cross_attention")
        return self.residual(x, lambda y: self.cross_attention(y, memory, memory_mask, scope), p.at("norm1"))

    def think(self, x: Var, memory: Var, mask: Any, memory_mask: Any, p: Scope) -> Var:
        return self.residual(x, lambda y: self.feed_forward(y, p.at("feed_forward")), p.at("norm2"))

    order: tuple[Any, ...] = (read_past, read_memory, think)


@defect("M4.3", "M4.3a")
class order_swapped(_OtherDecoder):
    """Cross-attention comes before self-attention."""

    order = (_OtherDecoder.read_memory, _OtherDecoder.read_past, _OtherDecoder.think)


@defect("M4.3", "M4.3a")
class feed_forward_before_cross(_OtherDecoder):
    """The feed-forward network comes before cross-attention."""

    order = (_OtherDecoder.read_past, _OtherDecoder.think, _OtherDecoder.read_memory)


@defect("M4.3", "M4.4")
class cross_attention_left_out(_OtherDecoder):
    """The decoder layer has two sublayers and never reads the memory."""

    order = (_OtherDecoder.read_past, _OtherDecoder.think)


@defect("M4.3", "M4.3a")
class cross_residual_from_layer_input(_OtherDecoder):
    """The cross-attention's residual starts from the layer's input."""

    def decoder_layer(
        self, x: Var, memory: Var, mask: Array | None, memory_mask: Array | None, p: Scope
    ) -> Var:
        past = self.read_past(x, memory, mask, memory_mask, p)
        scope = p.at("cross_attention")
        read = self.residual(
            x, lambda y: self.cross_attention(past, memory, memory_mask, scope), p.at("norm1")
        )
        return self.think(read, memory, mask, memory_mask, p)


@defect("M4.3", "M4.1", "M4.3a")
class shared_norms(Formulas):
    """All sublayers of a layer use the first one's norm."""

    def residual(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        first = Scope(norm.values, norm.prefix.replace("norm1", "norm0").replace("norm2", "norm0"))
        return super().residual(x, sublayer, first)


@defect("M4.3", "M4.3a")
class shared_attention(Formulas):
    """Cross-attention uses the parameters of self-attention."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        own = Scope(p.values, p.prefix.replace("cross_attention", "self_attention"))
        return super().cross_attention(x, memory, mask, own)


@defect("M4.4", "M4.3")
class cross_kv_from_decoder(Formulas):
    """Keys and values of cross-attention come from the decoder: the memory is never read."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        return super().cross_attention(x, x, None, p)


@defect("M4.4", "M4.3")
class cross_values_from_decoder(Formulas):
    """Where the lengths allow it, cross-attention mixes values of the decoder by keys of the encoder."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        if x.shape != memory.shape:
            return super().cross_attention(x, memory, mask, p)
        k, _ = self.keys_and_values(memory, p)
        _, v = self.keys_and_values(x, p)
        return self.attend(x, k, v, p, mask)["output"]


@defect("M4.4", "M4.3")
class cross_q_from_encoder(Formulas):
    """Queries of cross-attention come from the encoder, keys and values from the decoder."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        return super().cross_attention(memory, x, None, p)


@defect("M4.4", "M4.3", "M4.11")
class causal_on_cross(Formulas):
    """Cross-attention is causal too and hides the end of the source."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        return self.multi_head_attention(x, memory, p, mask, causal=True)["output"]


@defect("M4.4", "M4.11")
class causal_on_cross_of_equal_length(Formulas):
    """The decoder's mask is handed to cross-attention whenever its shape fits."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        causal = x.shape[1] == memory.shape[1]
        return self.multi_head_attention(x, memory, p, mask, causal=causal)["output"]


@defect("M4.9", "M4.11")
class norm_over_sequence(_OtherNorm):
    """Mean and variance are taken over the positions of a sequence."""

    axis = -2


@defect("M4.9", "M4.11")
class norm_over_sequence_and_features(_OtherNorm):
    """Mean and variance are taken over the whole sequence, positions and features together."""

    axis = (-2, -1)


@defect("M4.9", "M4.11")
class layer_norm_over_batch(_OtherNorm):
    """Mean and variance are taken over the batch."""

    axis = 0


@defect("M4.9", "M4.1", "M4.1a")
class unbiased_variance(_OtherNorm):
    """The variance is divided by D - 1."""

    def spread(self, centred: Var) -> Var:
        width = centred.shape[-1]
        factor = width / (width - 1) if width > 1 else math.nan  # 0 / 0, as everywhere
        squares = ops.scale(ops.mul(centred, centred), factor)
        return power(ops.add(mean(squares, -1), self.config.norm_eps), 0.5)


@defect("M4.9")
class eps_outside(_OtherNorm):
    """eps is added to the root instead of the variance."""

    def spread(self, centred: Var) -> Var:
        variance = ops.add(mean(ops.mul(centred, centred), -1), 1e-300)
        return ops.add(power(variance, 0.5), self.config.norm_eps)


@defect("M4.9")
class eps_of_another_library(_OtherNorm):
    """eps is 1e-6 whatever is configured."""

    def spread(self, centred: Var) -> Var:
        return power(ops.add(mean(ops.mul(centred, centred), -1), 1e-6), 0.5)


@defect("M4.9")
class eps_left_out(_OtherNorm):
    """Nothing is added to the variance: constant positions divide zero by zero."""

    def spread(self, centred: Var) -> Var:
        return power(mean(ops.mul(centred, centred), -1), 0.5)


@defect("M4.9")
class one_pass_variance(Formulas):
    """The variance is E[x^2] - E[x]^2, which loses its digits when the mean is large."""

    def layer_norm(self, x: Var, p: Scope) -> Var:
        average = mean(x, -1)
        variance = ops.sub(mean(ops.mul(x, x), -1), ops.mul(average, average))
        positive = ops.where(variance.value > 0, variance, 0.0)
        inverse = power(ops.add(positive, self.config.norm_eps), -0.5)
        return ops.add(ops.mul(ops.mul(ops.sub(x, average), inverse), p["weight"]), p["bias"])


@defect("M4.9", "M4.1")
class root_mean_square_only(_OtherNorm):
    """The mean is not subtracted."""

    def centre(self, x: Var) -> Var:
        return x


@defect("M4.9", "M4.1")
class norm_bias_left_out(Formulas):
    """The norm's bias is a parameter that nothing reads."""

    def layer_norm(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], constant(np.zeros(p["bias"].shape)), self.config.norm_eps)


@defect("M4.9", "M4.1")
class norm_weight_plus_one(Formulas):
    """The weight is stored as the distance from 1."""

    def layer_norm(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, ops.add(p["weight"], 1.0), p["bias"], self.config.norm_eps)


@defect("M4.9")
class norm_leaves_constants_alone(Formulas):
    """A position without spread is returned as it is."""

    def layer_norm(self, x: Var, p: Scope) -> Var:
        flat = np.ptp(x.value, axis=-1, keepdims=True) == 0
        return ops.where(~np.broadcast_to(flat, x.shape), super().layer_norm(x, p), x.value)


@defect("M4.9")
class norm_noisy_in_training(Formulas):
    """In train mode the norm's output goes through dropout."""

    def layer_norm(self, x: Var, p: Scope) -> Var:
        return self.dropout(super().layer_norm(x, p), "sublayer")


@defect("M4.12")
class residual_added_in_place(ReferenceComponent):
    """The residual is written into the caller's x."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if "output" in seen and "x" in inputs:
            inputs["x"] += np.asarray(0.5, inputs["x"].dtype)
        return seen


@defect("M4.12")
class mask_inverted_in_place(ReferenceComponent):
    """The caller's mask is turned into its opposite, as some library wants it."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        for name in ("mask", "memory_mask"):
            if inputs.get(name) is not None:
                np.logical_not(inputs[name], out=inputs[name])
        return seen


@defect("M4.12")
class memory_normalised_in_place(ReferenceComponent):
    """The caller's memory is centred where it lies."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if "memory" in inputs:
            inputs["memory"] -= inputs["memory"].mean(-1, keepdims=True)
        return seen


@defect("M4.12")
class global_seed_in_training(ReferenceComponent):
    """train(seed) seeds numpy's global generator."""

    def train(self, seed: int) -> None:
        super().train(seed)
        np.random.seed(seed)


@defect("M4.12")
class counts_its_calls(ReferenceComponent):
    """Every call adds a little to the output, as a running average kept in eval does."""

    calls = 0

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        self.calls += 1
        return {name: value * (1 + 1e-3 * self.calls) for name, value in super().__call__(**inputs).items()}


class _OtherStart(ReferenceComponent):
    """A component whose initial parameters are changed name by name."""

    def initial(self) -> dict[str, Array]:
        return {name: self.start(name, value) for name, value in super().initial().items()}

    def start(self, name: str, value: Array) -> Array:
        raise NotImplementedError


@defect("M4.13")
class norm_starts_at_zero(_OtherStart):
    """Norm weights start at 0 and switch their layer off."""

    def start(self, name: str, value: Array) -> Array:
        return np.zeros_like(value) if "norm" in name else value


@defect("M4.13")
class queries_too_large(_OtherStart):
    """Query and key maps start with four times their spread and saturate the softmax."""

    def start(self, name: str, value: Array) -> Array:
        return 4 * value if name.endswith(("query.weight", "key.weight")) else value


@defect("M4.13")
class biases_start_random(_OtherStart):
    """Biases of linear maps start at random values."""

    def start(self, name: str, value: Array) -> Array:
        if value.ndim == 1 and "norm" not in name:
            return np.full_like(value, 0.05)
        return value


@defect("M4.13")
class weights_start_standard_normal(_OtherStart):
    """Matrices start with variance 1 whatever their size."""

    def start(self, name: str, value: Array) -> Array:
        return value / max(float(value.std()), 1e-12) if value.ndim == 2 else value
