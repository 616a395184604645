"""Defects of encoder and decoder layers: residuals, placement of norms, order, cross-attention.

Shapes: x (B, T, D), memory (B, S, D), masks True where a query may attend.
"""

from __future__ import annotations

from typing import Any

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.layers import Layers
from attest.reference.parts.norms import Residual, Sublayer
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Var


@defect("M4.1", "M4.1a", "M4.2", "M4.3")
class residual_missing(Residual):
    """The sublayer's output replaces its input instead of being added to it."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return self.parts.dropout(sublayer(self.parts.norm(x, norm)), "sublayer")
        return self.parts.norm(self.parts.dropout(sublayer(x), "sublayer"), norm)


@defect("M4.1", "M4.1a", "M4.3", "M4.3a")
class norm_missing(Residual):
    """The sum of a sublayer and its input is not normalised."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        return ops.add(x, self.parts.dropout(sublayer(x), "sublayer"))


@defect("M4.1", "M4.1a", "M4.3")
class norm_before_residual(Residual):
    """post: x + LN(f(x)) instead of LN(x + f(x))."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return super().__call__(x, sublayer, norm)
        return ops.add(x, self.parts.norm(self.parts.dropout(sublayer(x), "sublayer"), norm))


@defect("M4.1", "M4.2", "M4.3a")
class residual_of_normed_input(Residual):
    """What is added to the sublayer's output is the normalised input."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        normed = self.parts.norm(x, norm)
        joined = ops.add(normed, self.parts.dropout(sublayer(normed), "sublayer"))
        return joined if self.config.norm == "pre" else self.parts.norm(joined, norm)


@defect("M4.1", "M4.2")
class feed_forward_residual_from_layer_input(Layers):
    """The second residual of an encoder layer starts from the layer's input, not from the first sublayer."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        attended = self.parts.residual(
            x, lambda y: self.self_attention(y, p.at("self_attention"), where), p.at("norm0")
        )
        return self.parts.residual(
            x,
            lambda y: self.parts.feed_forward(self._inner(attended, p), p.at("feed_forward")),
            p.at("norm1"),
        )

    def _inner(self, attended: Var, p: Scope) -> Var:
        return self.parts.norm(attended, p.at("norm1")) if self.config.norm == "pre" else attended


@defect("M4.1", "M4.2")
class feed_forward_beside_attention(Layers):
    """Attention and feed-forward network both read the layer's input, side by side."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        def both(y: Var) -> Var:
            attended = self.self_attention(y, p.at("self_attention"), where)
            return ops.add(attended, self.parts.feed_forward(y, p.at("feed_forward")))

        return self.parts.residual(x, both, p.at("norm0"))


@defect("M4.1", "M4.1a")
class norms_exchanged(Layers):
    """The first sublayer uses the second norm, and the second the first."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        x = self.parts.residual(
            x, lambda y: self.self_attention(y, p.at("self_attention"), where), p.at("norm1")
        )
        return self.parts.residual(
            x, lambda y: self.parts.feed_forward(y, p.at("feed_forward")), p.at("norm0")
        )


@defect("M4.1", "M4.2", "M4.3")
class sublayer_scaled_down(Residual):
    """The sublayer's output is halved before it is added."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        return super().__call__(x, lambda y: ops.scale(sublayer(y), 0.5), norm)


@defect("M4.2", "M4.1", "M4.1a")
class pre_post_swapped(Residual):
    """norm="pre" gives the post-norm layer and the other way round."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return self.parts.norm(ops.add(x, self.parts.dropout(sublayer(x), "sublayer")), norm)
        return ops.add(x, self.parts.dropout(sublayer(self.parts.norm(x, norm)), "sublayer"))


@defect("M4.2", "M4.3")
class placement_ignored(Residual):
    """The norm always comes after the sum, whatever is configured."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        return self.parts.norm(ops.add(x, self.parts.dropout(sublayer(x), "sublayer")), norm)


@defect("M4.2", "M4.3", "M4.3a")
class memory_normalised_again(Layers):
    """pre: the cross-attention's norm is applied to the encoder's output too."""

    def decoder_layer(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        if self.config.norm == "pre":
            memory = self.parts.norm(memory, p.at("norm1"))
        return super().decoder_layer(x, memory, p, where)


class _OtherDecoder(Layers):
    """A decoder layer in three methods, of which a defect replaces one."""

    def decoder_layer(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        for step in self.order:
            x = step(self, x, memory, p, where)
        return x

    def read_past(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return self.parts.residual(
            x, lambda y: self.decoder_self_attention(y, p.at("self_attention"), where), p.at("norm0")
        )

    def read_memory(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        scope = p.at("cross_attention")
        return self.parts.residual(
            x, lambda y: self.cross_attention(y, memory, scope, where.across()), p.at("norm1")
        )

    def think(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return self.parts.residual(
            x, lambda y: self.parts.feed_forward(y, p.at("feed_forward")), p.at("norm2")
        )

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

    def decoder_layer(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        past = self.read_past(x, memory, p, where)
        scope = p.at("cross_attention")
        read = self.parts.residual(
            x, lambda y: self.cross_attention(past, memory, scope, where.across()), p.at("norm1")
        )
        return self.think(read, memory, p, where)


@defect("M4.3", "M4.1", "M4.3a")
class shared_norms(Residual):
    """All sublayers of a layer use the first one's norm."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        first = Scope(norm.values, norm.prefix.replace("norm1", "norm0").replace("norm2", "norm0"))
        return super().__call__(x, sublayer, first)


@defect("M4.3", "M4.3a")
class shared_attention(Layers):
    """Cross-attention uses the parameters of self-attention."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        own = Scope(p.values, p.prefix.replace("cross_attention", "self_attention"))
        return super().cross_attention(x, memory, own, where)


@defect("M4.4", "M4.3")
class cross_kv_from_decoder(Layers):
    """Keys and values of cross-attention come from the decoder: the memory is never read."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return super().cross_attention(x, x, p, where.but(mask=None))


@defect("M4.4", "M4.3")
class cross_values_from_decoder(Layers):
    """Where the lengths allow it, cross-attention mixes values of the decoder by keys of the encoder."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        if x.shape != memory.shape:
            return super().cross_attention(x, memory, p, where)
        k, _ = self.parts.heads.keys_and_values(memory, p, where)
        _, v = self.parts.heads.keys_and_values(x, p, where)
        return self.parts.heads.attend(x, k, v, p, where)["output"]


@defect("M4.4", "M4.3")
class cross_q_from_encoder(Layers):
    """Queries of cross-attention come from the encoder, keys and values from the decoder."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return super().cross_attention(memory, x, p, where.but(mask=None))


@defect("M4.4", "M4.3", "M4.11")
class causal_on_cross(Layers):
    """Cross-attention is causal too and hides the end of the source."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return self.parts.heads(x, memory, p, where.but(causal=True))["output"]


@defect("M4.4", "M4.11")
class causal_on_cross_of_equal_length(Layers):
    """The decoder's mask is handed to cross-attention whenever its shape fits."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        causal = x.shape[1] == memory.shape[1]
        return self.parts.heads(x, memory, p, where.but(causal=causal))["output"]
