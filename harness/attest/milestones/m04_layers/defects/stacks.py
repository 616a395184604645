"""Defects of stacks: their layers, their memory, their gradients.

Shapes: x (B, T, D), memory (B, S, D), masks True where a query may attend.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract.parameters import Shapes
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.assembly import Parts
from attest.reference.component import ReferenceComponent
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.layers import Layers
from attest.reference.parts.norms import LayerNorm, Residual, Sublayer
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach, node


@defect("M4.2a", "M4.6")
class final_norm_missing(Layers):
    """A pre-norm stack ends without a norm."""

    def final_norm(self, x: Var, p: Scope) -> Var:
        return x


@defect("M4.2a", "M4.6")
class final_norm_on_post_too(Layers):
    """A post-norm stack is normalised once more, with the last layer's norm."""

    def final_norm(self, x: Var, p: Scope) -> Var:
        if self.config.norm == "pre":
            return super().final_norm(x, p)
        return self.parts.norm(x, p.at("0").at("norm0"))


@defect("M4.2a")
class final_norm_without_parameters(ReferenceComponent):
    """The last norm of a pre-norm stack has no weight and no bias."""

    def shapes(self) -> Shapes:
        named = super().shapes()
        return {n: s for n, s in named.items() if not n.startswith("norm.")}

    def scope(self, gradient: bool = False) -> Scope:
        p = super().scope(gradient)
        width = self.config.d_model
        own = {"norm.weight": Var(np.ones(width)), "norm.bias": Var(np.zeros(width))}
        return Scope({**own, **p.values})


@defect("M4.2a", "M4.6")
class final_norm_after_every_layer(Layers):
    """The last norm of a pre-norm stack stands inside the loop over layers."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        return self._with_last_norm(super().encoder_layer(x, p, where), p)

    def decoder_layer(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return self._with_last_norm(super().decoder_layer(x, memory, p, where), p)

    def _with_last_norm(self, x: Var, p: Scope) -> Var:
        stack = Scope(p.values, p.prefix.rstrip("0123456789."))
        return self.final_norm(x, stack) if stack.get("norm.weight") is not None else x


@defect("M4.6", "M4.2a")
class layers_aliased(Layers):
    """One layer is used N times."""

    def layer_scope(self, p: Scope, i: int) -> Scope:
        return super().layer_scope(p, 0)


@defect("M4.6")
class layers_share_storage(ReferenceComponent):
    """All layers are the same object: loading one loads all."""

    def load(self, parameters: Any) -> None:
        super().load(parameters)
        values = self.values
        depth = sum(name.endswith(".norm0.weight") for name in values)
        self._values = {
            n: values.get(f"{depth - 1}.{n[2:]}", v) if n[1:2] == "." else v for n, v in values.items()
        }


@defect("M4.6a")
class layers_cloned(ReferenceComponent):
    """Every layer starts as a copy of the first."""

    def initial(self) -> dict[str, Array]:
        values = super().initial()
        return {
            n: values.get(f"0.{n.partition('.')[2]}", v) if n[0].isdigit() else v for n, v in values.items()
        }


@defect("M4.6a")
class layers_seeded_alike(ReferenceComponent):
    """Each layer draws its weights from a generator with the same seed; only the last layer differs."""

    def initial(self) -> dict[str, Array]:
        values = super().initial()
        return {n: values.get(f"1.{n[2:]}", v) if n.startswith("0.") else v for n, v in values.items()}


@defect("M4.6", "M4.2a")
class plain_list_of_layers(ReferenceComponent):
    """The layers are kept in a plain list: their parameters are neither listed nor loaded."""

    def parameters(self) -> dict[str, Array]:
        return {n: v for n, v in super().parameters().items() if not n[0].isdigit()}

    def load(self, parameters: Any) -> None:
        own = {n: v for n, v in parameters.items() if not n[0].isdigit()}
        super().load({**self.values, **own})


@defect("M4.6", "M4.2a")
class last_layer_left_out(Layers):
    """The loop ends one layer early."""

    def __init__(self, config: Any, parts: Parts) -> None:
        super().__init__(config, parts)
        self.stack = config.but(
            num_encoder_layers=max(1, config.num_encoder_layers - 1),
            num_decoder_layers=max(1, config.num_decoder_layers - 1),
        )

    def encoder(self, x: Var, p: Scope, where: Where) -> Var:
        self.config, whole = self.stack, self.config
        try:
            return super().encoder(x, p, where)
        finally:
            self.config = whole

    def decoder(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        self.config, whole = self.stack, self.config
        try:
            return super().decoder(x, memory, p, where)
        finally:
            self.config = whole


@defect("M4.6", "M4.2a")
class layers_in_reverse(Layers):
    """The last layer is applied first."""

    def layer_scope(self, p: Scope, i: int) -> Scope:
        depth = sum(n.startswith(p.prefix) and n.endswith(".norm0.weight") for n in p.values)
        return super().layer_scope(p, depth - 1 - i)


@defect("M4.6")
class depth_is_always_six(ReferenceComponent):
    """Stacks have six layers whatever is configured."""

    def __init__(self, parts: Parts, operation: str, config: Any) -> None:
        six = parts.but(num_encoder_layers=6, num_decoder_layers=6)
        super().__init__(six, operation, six.config)


@defect("M4.6")
class decoder_as_deep_as_encoder(ReferenceComponent):
    """The decoder takes its depth from the encoder's."""

    def __init__(self, parts: Parts, operation: str, config: Any) -> None:
        same = parts.but(num_decoder_layers=config.num_encoder_layers)
        super().__init__(same, operation, same.config)


@defect("M4.7", "M4.2a")
class memory_to_first_layer_only(Layers):
    """Later layers read zeros in place of the memory."""

    def memory_for_layer(self, i: int, memory: Var) -> Var:
        return memory if i == 0 else ops.scale(memory, 0.0)


@defect("M4.7", "M4.2a")
class memory_to_last_layer_only(Layers):
    """Only the last layer reads the memory."""

    def memory_for_layer(self, i: int, memory: Var) -> Var:
        return memory if i == self.config.num_decoder_layers - 1 else ops.scale(memory, 0.0)


@defect("M4.7")
class memory_of_wrong_layer(Layers):
    """Decoder layer i reads the output of encoder layer i instead of the whole encoder's."""

    def encoder(self, x: Var, p: Scope, where: Where) -> Var:
        self.outputs: list[Var] = []
        return super().encoder(x, p, where)

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        made = super().encoder_layer(x, p, where)
        if hasattr(self, "outputs"):
            self.outputs.append(made)
        return made

    def memory_for_layer(self, i: int, memory: Var) -> Var:
        made = getattr(self, "outputs", [])
        return made[i] if i < len(made) and made[i].shape == memory.shape else memory


@defect("M4.7", "M4.2a")
class memory_fades_with_depth(Layers):
    """Each layer hands on half of the memory."""

    def memory_for_layer(self, i: int, memory: Var) -> Var:
        return ops.scale(memory, 0.5**i)


@defect("M4.7", "M4.2a")
class memory_normalised_between_layers(Layers):
    """The memory is normalised before every layer but the first."""

    def memory_for_layer(self, i: int, memory: Var) -> Var:
        width = memory.shape[-1]
        one, zero = Var(np.ones(width)), Var(np.zeros(width))
        return memory if i == 0 else ops.layer_norm(memory, one, zero, self.config.norm_eps)


@defect("M4.8")
class dead_layer(Layers):
    """The first layer's parameters are frozen: right outputs, no gradient."""

    def layer_scope(self, p: Scope, i: int) -> Scope:
        own = super().layer_scope(p, i)
        if i:
            return own
        frozen = {n: detach(v) if n.startswith(own.prefix) else v for n, v in p.values.items()}
        return Scope(frozen, own.prefix)


@defect("M4.8", "M4.11")
class detach_in_path(Layers):
    """The input of every layer is detached: gradients stop there."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        return super().encoder_layer(detach(x), p, where)

    def decoder_layer(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return super().decoder_layer(detach(x), memory, p, where)


@defect("M4.8", "M4.11")
class memory_detached(Layers):
    """The memory is read without gradient: the encoder is never trained."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return super().cross_attention(x, detach(memory), p, where)


@defect("M4.8")
class sublayer_input_detached(Residual):
    """Gradients go through the residual only, never through a sublayer to its input."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        return super().__call__(x, lambda y: sublayer(detach(y)), norm)


@defect("M4.8")
class residual_gradient_dropped(Residual):
    """Gradients go through the sublayer only."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return ops.add(detach(x), self.parts.dropout(sublayer(self.parts.norm(x, norm)), "sublayer"))
        return self.parts.norm(ops.add(detach(x), self.parts.dropout(sublayer(x), "sublayer")), norm)


@defect("M4.8")
class norm_gradient_lacks_a_term(LayerNorm):
    """The norm's backward pass leaves out what comes through the variance."""

    def __call__(self, x: Var, p: Scope) -> Var:
        right = super().__call__(x, p)
        centred = x.value - x.value.mean(-1, keepdims=True)
        scale = 1.0 / np.sqrt((centred * centred).mean(-1, keepdims=True) + self.config.norm_eps)
        normed, weight = centred * scale, p["weight"]

        def backward(g: Array) -> tuple[Array, Array, Array]:
            gh = g * weight.value
            axes = tuple(range(g.ndim - 1))
            return scale * (gh - gh.mean(-1, keepdims=True)), (g * normed).sum(axes), g.sum(axes)

        return node(right.value, (x, weight, p["bias"]), backward)


@defect("M4.8")
class norm_gradient_subtracts_the_mean_twice(LayerNorm):
    """The norm's backward pass subtracts the mean of the cotangent once too often."""

    def __call__(self, x: Var, p: Scope) -> Var:
        right = super().__call__(x, p)
        if not right.needs_gradient or right.backward is None:
            return right
        backward = right.backward

        def twice(g: Array) -> list[Any]:
            found = list(backward(g))
            found[0] = found[0] - (g * p["weight"].value).mean(-1, keepdims=True)
            return found

        return node(right.value, right.parents, twice)


@defect("M4.7", "M4.4", "M4.11")
class memory_kept_from_first_call(MultiHead):
    """Keys and values of the memory are computed once and kept for later calls of the same shape."""

    def keys_and_values(self, x: Var, p: Scope, where: Where) -> tuple[Var, Var]:
        made = super().keys_and_values(x, p, where)
        if where.place != "cross":
            return made
        kept: dict[Any, tuple[Var, Var]] = self.__dict__.setdefault("_kept", {})
        return kept.setdefault((p.prefix, x.shape), made)
