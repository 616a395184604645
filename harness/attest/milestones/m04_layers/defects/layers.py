"""Defects of encoder and decoder layers: residuals, placement of norms, order, cross-attention.

Shapes: x (B, T, D), memory (B, S, D), masks True where a query may attend.
"""

from __future__ import annotations

from typing import Any

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.formulas import Formulas
from attest.reference.layers import Sublayer
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


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
