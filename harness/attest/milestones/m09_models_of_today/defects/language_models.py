"""Defects of the decoder-only model: its embedding, its stack and its head."""

from __future__ import annotations

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.models.decoder_only import DecoderOnly
from attest.reference.parts.layers import Layers
from attest.reference.parts.norms import Sublayer
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@defect("M9.4")
class stack_ends_without_its_norm(Layers):
    """Nothing norms what the last layer gives; layers by themselves are right."""

    def causal_stack(self, x: Var, p: Scope, where: Where) -> Var:
        where = self.in_stack(p, where)
        for i in range(self.config.num_decoder_layers):
            x = self.causal_layer(x, self.layer_scope(p, i), where.but(layer=i))
        return x


@defect("M9.4")
class head_reads_last_residual(DecoderOnly):
    """The head reads the normed stream plus what the last layer was given."""

    def __call__(self, ids: Array, p: Scope) -> Var:
        where = self.place(ids)
        x = self.parts.embedding.of_model(ids, p, where)
        return self.logits(ops.add(self.parts.layers.causal_stack(x, p.at("decoder"), where), x), p)


@defect("M9.4")
class residual_begins_behind_the_norm(Layers):
    """The residual connection begins behind the norm of the feed-forward network."""

    def causal_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        if self.config.parallel or self.config.norm != "pre":
            return super().causal_block(x, attend, p)
        x = self.parts.residual(x, attend, p.at("norm0"))
        normed = self.parts.norm(x, p.at("norm1"))
        return ops.add(normed, self.feed_forward(normed, p))


@defect("M9.4")
class norms_of_a_block_exchanged(Layers):
    """The two norms of a layer have each other's gains."""

    def causal_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        return super().causal_block(x, attend, _Swapped(p))


class _Swapped(Scope):
    """A layer's parameters with its norms exchanged."""

    def __init__(self, p: Scope) -> None:
        names = {"norm0": "norm1", "norm1": "norm0"}
        prefix = p.prefix
        swapped = {}
        for name, value in p.values.items():
            own = name.removeprefix(prefix) if name.startswith(prefix) else ""
            first, _, rest = own.partition(".")
            swapped[f"{prefix}{names[first]}.{rest}" if first in names else name] = value
        super().__init__(swapped, prefix)
