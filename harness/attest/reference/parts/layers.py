"""Encoder and decoder layers and their stacks: section 3.1 of the paper; the layer of decoder-only models.

Shapes: B batch, T target length, S source length, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.reference import ops
from attest.reference.parts.norms import Sublayer
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Layers(Part):
    """Sublayers in residual connections, layers in stacks."""

    def self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        return self.parts.heads(x, x, p, where)["output"]

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        """Queries from the decoder, keys and values from the encoder."""
        return self.parts.heads(x, memory, p, where)["output"]

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        residual = self.parts.residual
        x = residual(x, lambda y: self.self_attention(y, p.at("self_attention"), where), p.at("norm0"))
        return residual(x, lambda y: self.parts.feed_forward(y, p.at("feed_forward")), p.at("norm1"))

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        """Always causal; a mask comes on top."""
        return self.self_attention(x, p, where.but(causal=True))

    def decoder_layer(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        """Masked self-attention, cross-attention, feed-forward, in this order."""
        own, cross, residual = p.at("self_attention"), p.at("cross_attention"), self.parts.residual
        x = residual(x, lambda y: self.decoder_self_attention(y, own, where), p.at("norm0"))
        x = residual(x, lambda y: self.cross_attention(y, memory, cross, where.across()), p.at("norm1"))
        return residual(x, lambda y: self.parts.feed_forward(y, p.at("feed_forward")), p.at("norm2"))

    def causal_layer(self, x: Var, p: Scope, where: Where) -> Var:
        """Masked self-attention and feed-forward."""
        own = p.at("self_attention")
        return self.causal_block(x, lambda y: self.decoder_self_attention(y, own, where), p)

    def causal_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        """The wiring around attention, whether that reads a sequence or a cache."""
        if self.config.parallel:
            return self.parallel_block(x, attend, p)
        x = self.parts.residual(x, attend, p.at("norm0"))
        return self.parts.residual(x, lambda y: self.feed_forward(y, p), p.at("norm1"))

    def parallel_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        """x + attention(norm0(x)) + feed_forward(norm1(x)): both read the same x."""
        norm, dropout = self.parts.norm, self.parts.dropout
        attended = dropout(attend(norm(x, p.at("norm0"))), "sublayer")
        fed = dropout(self.feed_forward(norm(x, p.at("norm1")), p), "sublayer")
        return ops.add(ops.add(x, attended), fed)

    def feed_forward(self, x: Var, p: Scope) -> Var:
        return self.parts.feed_forward(x, p.at("feed_forward"))

    def causal_stack(self, x: Var, p: Scope, where: Where) -> Var:
        """Causal layers, and a last norm where norm is pre."""
        where = self.in_stack(p, where)
        for i in range(self.config.num_decoder_layers):
            x = self.causal_layer(x, self.layer_scope(p, i), where.but(layer=i))
        return self.final_norm(x, p)

    def in_stack(self, p: Scope, where: Where) -> Where:
        """With the table of relative positions that all layers of a stack share."""
        return where.but(table=p.get("relative.weight"))

    def layer_scope(self, p: Scope, i: int) -> Scope:
        """The parameters of layer i of a stack."""
        return p.at(str(i))

    def final_norm(self, x: Var, p: Scope) -> Var:
        """One norm after a pre-norm stack, none after a post-norm one."""
        return self.parts.norm(x, p.at("norm")) if self.config.norm == "pre" else x

    def encoder(self, x: Var, p: Scope, where: Where) -> Var:
        where = self.in_stack(p, where)
        for i in range(self.config.num_encoder_layers):
            x = self.encoder_layer(x, self.layer_scope(p, i), where.but(layer=i))
        return self.final_norm(x, p)

    def memory_for_layer(self, i: int, memory: Var) -> Var:
        """What decoder layer i reads across."""
        return memory

    def decoder(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        where = self.in_stack(p, where)
        for i in range(self.config.num_decoder_layers):
            read = self.memory_for_layer(i, memory)
            x = self.decoder_layer(x, read, self.layer_scope(p, i), where.but(layer=i))
        return self.final_norm(x, p)


@formula("encoder_layer")
def _encoder_layer(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.layers.encoder_layer(inputs["x"], p, Where.of(inputs, "encoder"))}


@formula("encoder")
def _encoder(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.layers.encoder(inputs["x"], p, Where.of(inputs, "encoder"))}


@formula("decoder_layer")
def _decoder_layer(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    where = Where.of(inputs, "decoder")
    return {"output": parts.layers.decoder_layer(inputs["x"], inputs["memory"], p, where)}


@formula("decoder")
def _decoder(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    where = Where.of(inputs, "decoder")
    return {"output": parts.layers.decoder(inputs["x"], inputs["memory"], p, where)}


@formula("causal_layer")
def _causal_layer(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    where = parts.layers.in_stack(p, Where.of(inputs, "decoder"))
    return {"output": parts.layers.causal_layer(inputs["x"], p, where)}
