"""Defects of the causal layer and of what it may see. Shapes: x (B, T, D)."""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.layers import Layers
from attest.reference.parts.masks import Masks
from attest.reference.parts.norms import Sublayer
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, constant, detach


@defect("M9.4")
class residual_begins_behind_the_norm(Layers):
    """The residual connection begins behind the norm of the feed-forward network."""

    def causal_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        if self.config.parallel or self.config.norm != "pre":
            return super().causal_block(x, attend, p)
        x = self.parts.residual(x, attend, p.at("norm0"))
        normed = self.parts.norm(x, p.at("norm1"))
        return ops.add(normed, self.feed_forward(normed, p))


class _Renamed(Scope):
    """A layer's parameters with its norms under other names."""

    def __init__(self, p: Scope, names: dict[str, str]) -> None:
        renamed = {}
        for name, value in p.values.items():
            first, dot, rest = name.removeprefix(p.prefix).partition(".")
            own = name.startswith(p.prefix) and first in names
            renamed[f"{p.prefix}{names[first]}{dot}{rest}" if own else name] = value
        super().__init__(renamed, p.prefix)


@defect("M9.4")
class norms_of_a_block_exchanged(Layers):
    """The two norms of a layer have each other's gains."""

    def causal_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        return super().causal_block(x, attend, _Renamed(p, {"norm0": "norm1", "norm1": "norm0"}))


@defect("M9.4")
class parallel_one_after_the_other(Layers):
    """Where both sublayers should read the same x, the second reads what the first has added."""

    def parallel_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        norm, dropout = self.parts.norm, self.parts.dropout
        x = ops.add(x, dropout(attend(norm(x, p.at("norm0"))), "sublayer"))
        return ops.add(x, dropout(self.feed_forward(norm(x, p.at("norm1")), p), "sublayer"))


@defect("M9.20")
class parallel_feed_forward_not_dropped(Layers):
    """Of two sublayers side by side the attention alone is followed by dropout."""

    def parallel_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        norm = self.parts.norm
        attended = self.parts.dropout(attend(norm(x, p.at("norm0"))), "sublayer")
        return ops.add(ops.add(x, attended), self.feed_forward(norm(x, p.at("norm1")), p))


@defect("M9.4")
class parallel_with_one_norm(Layers):
    """Both sublayers read the first norm, and the second norm reads nothing."""

    def parallel_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        dropout, normed = self.parts.dropout, self.parts.norm(x, p.at("norm0"))
        attended = dropout(attend(normed), "sublayer")
        return ops.add(ops.add(x, attended), dropout(self.feed_forward(normed, p), "sublayer"))


@defect("M9.4")
class feed_forward_before_attention(Layers):
    """The sublayers come in the other order, each with its own norm."""

    def causal_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        if self.config.parallel:
            return super().causal_block(x, attend, p)
        x = self.parts.residual(x, lambda y: self.feed_forward(y, p), p.at("norm1"))
        return self.parts.residual(x, attend, p.at("norm0"))


@defect("M9.4")
class layer_ignores_its_mask(Layers):
    """A layer by itself takes a mask and forgets it."""

    def causal_layer(self, x: Var, p: Scope, where: Where) -> Var:
        return super().causal_layer(x, p, where.but(mask=None) if where.layer is None else where)


@defect("M9.4")
class layer_ignores_positions(Layers):
    """A layer by itself counts positions from 0, whatever it is given."""

    def causal_layer(self, x: Var, p: Scope, where: Where) -> Var:
        return super().causal_layer(x, p, where.but(positions=None) if where.layer is None else where)


@defect("M9.4")
class mask_replaces_the_triangle(Layers):
    """A layer that is given a mask takes it for the whole of what may be seen."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        if where.layer is None and where.mask is not None:
            return self.self_attention(x, p, where.but(causal=False))
        return super().decoder_self_attention(x, p, where)


@defect("M9.5")
class future_seen_in_training(Masks):
    """The triangle is part of inference alone."""

    def allowed(self, where: Where, T: int, S: int) -> Array | None:
        return super().allowed(where.but(causal=where.causal and self.parts.noise is None), T, S)


@defect("M9.5")
class one_token_ahead_in_the_last_layer(Masks):
    """The triangle of the last layer is wider by one."""

    def allowed(self, where: Where, T: int, S: int) -> Array | None:
        if where.layer != self.config.num_decoder_layers - 1 or T != S:
            return super().allowed(where, T, S)
        return self.combine_masks(where.mask, np.tri(T, S, 1, dtype=bool))


@defect("M9.5", "M9.8")
class later_steps_not_causal(Masks):
    """Tokens of a step behind the first see each other in both directions."""

    def causal_allowed(self, T: int, S: int) -> Array:
        return super().causal_allowed(T, S) if T == S else np.ones((T, S), bool)


@defect("M9.5", "M9.8")
class mask_of_first_length(Masks):
    """The triangle is made for the first length that is read, and nothing is hidden beyond it."""

    def causal_allowed(self, T: int, S: int) -> Array:
        first: int = self.__dict__.setdefault("first", S)
        allowed = super().causal_allowed(T, S).copy()
        allowed[:, first:] = True
        return allowed


@defect("M9.5")
class future_in_the_last_norm(Layers):
    """The mean over the positions of a sequence is taken out before the last norm."""

    def final_norm(self, x: Var, p: Scope) -> Var:
        centred = ops.sub(x, constant(x.value.mean(axis=1, keepdims=True)))
        return super().final_norm(centred, p)


@defect("M9.6")
class norm_on_residual_path(Layers):
    """The stream itself is normed before each sublayer, and so is what is added to."""

    def causal_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        if self.config.norm != "pre":
            return super().causal_block(x, attend, p)
        return super().causal_block(self.parts.norm(x, p.at("norm0")), attend, p)


@defect("M9.6")
class residual_halved(Layers):
    """Stream and sublayer are averaged and not added."""

    def causal_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        return ops.scale(super().causal_block(x, attend, p), 0.5)


@defect("M9.6")
class gain_of_the_last_norm_idle(Layers):
    """The gain behind the stack is a parameter that nothing reads."""

    def final_norm(self, x: Var, p: Scope) -> Var:
        if self.config.norm != "pre":
            return x
        ones = constant(np.ones(p["norm.weight"].shape))
        held = {**p.values, f"{p.prefix}norm.weight": ones}
        return super().final_norm(x, Scope(held, p.prefix))


@defect("M9.6", "M9.17a")
class gradient_stops_behind_the_embedding(Layers):
    """The stack reads a copy of the embedding that is cut off the tape."""

    def causal_stack(self, x: Var, p: Scope, where: Where) -> Var:
        return super().causal_stack(detach(x), p, where)


@defect("M9.17a")
class shared_bias_learns_from_the_first_layer(Layers):
    """The table of relative positions gets no gradient from layers behind the first."""

    def causal_layer(self, x: Var, p: Scope, where: Where) -> Var:
        held = where.table
        return super().causal_layer(x, p, where.but(table=detach(held)) if where.layer and held else where)
