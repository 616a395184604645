"""Defects of multi-head attention: how the width is divided, projected, joined and mixed.

Shapes: query (B, T, D), key_value (B, S, D), heads (B, H, T, d) with D = H * d.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.contract import Gradients
from attest.contract.parameters import Shapes
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.implementation import ReferenceImplementation
from attest.reference.parts.attention import Attention
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.linear import Linear, Projections
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach


class Unchecked(ReferenceComponent):
    """Takes any number of heads up to the width."""

    def check_heads(self) -> None:
        if self.config.d_model < self.config.num_heads:
            super().check_heads()


class Floored(MultiHead):
    """A head is as wide as the quotient, rounded down."""

    def head_width(self) -> int:
        return self.config.d_model // self.config.num_heads

    def split(self, x: Var, heads: int) -> Var:
        return super().split(ops.columns(x, 0, heads * self.head_width()), heads)

    def merge(self, x: Var) -> Var:
        merged = super().merge(x)
        lost = self.config.d_model - merged.shape[-1]
        return ops.concat([merged, Var(np.zeros((*merged.shape[:-1], lost)))]) if lost else merged


@defect("M2.1", "M2.1a")
class floor_division_drops_features(ReferenceImplementation):
    """The width of a head is rounded down, and the features left over take no part."""

    pieces = (Floored,)
    component_class = Unchecked


@defect("M2.1")
class uneven_heads_refused_late(ReferenceComponent):
    """An h that does not divide is noticed when the component is called."""

    def check_heads(self) -> None:
        return


@defect("M2.1")
class last_head_of_width_one_lost(MultiHead):
    """With as many heads as features, the last head is left out."""

    def merge(self, x: Var) -> Var:
        merged = super().merge(x)
        if x.shape[-1] > 1 or x.shape[1] == 1:
            return merged
        return ops.where(np.arange(merged.shape[-1]) < merged.shape[-1] - 1, merged, 0.0)


@defect("M2.1a")
class refusal_names_one_number(ReferenceComponent):
    """The message says only which number of heads was wrong."""

    def check_heads(self) -> None:
        try:
            super().check_heads()
        except ValueError:
            raise ValueError(f"num_heads={self.config.num_heads} does not divide the width") from None


@defect("M2.1a")
class refuses_by_assert(ReferenceComponent):
    """A num_heads that does not divide is met by an assert."""

    def check_heads(self) -> None:
        if "num_heads" in self.reads:
            d_model, num_heads = self.config.d_model, self.config.num_heads
            assert d_model % num_heads == 0, f"num_heads={num_heads} does not divide d_model={d_model}"


@defect("M2.2", "M2.11", "M2.6")
class heads_share_projection(Attention):
    """All heads use the query and key rows of the first."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        if where.place != "alone":
            q, k = (ops.add(ops.scale(x, 0.0), ops.index(x, (slice(None), slice(0, 1)))) for x in (q, k))
        return super().scores(q, k, where)


@defect("M2.2", "M2.6")
class interleaved_layout(MultiHead):
    """Features are dealt out to the heads in turn, on the way in and out."""

    def split(self, x: Var, heads: int) -> Var:
        B, T, _ = x.shape
        return ops.swap(ops.swap(ops.reshape(x, (B, T, -1, heads)), 2, 3), 1, 2)

    def merge(self, x: Var) -> Var:
        B, H, T, d = x.shape
        return ops.reshape(ops.swap(ops.swap(x, 1, 2), 2, 3), (B, T, H * d))


@defect("M2.2", "M2.6")
class heads_split_before_projection(Linear):
    """Each head projects its own share of the input only."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        if name not in ("query", "key", "value"):
            return super().__call__(x, p, name)
        D, H = p[f"{name}.weight"].shape[0], self.config.num_heads
        blocks = np.kron(np.eye(H), np.ones((D // H, D // H)))
        bias = p.get(f"{name}.bias")
        y = ops.matmul(x, ops.swap(ops.scale(p[f"{name}.weight"], blocks)))
        return y if bias is None else ops.add(y, bias)


@defect("M2.2", "M2.6")
class scale_by_sqrt_dmodel(Attention):
    """Scores are divided by the root of the model's width."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        width = q.shape[-1] if where.place == "alone" else self.config.d_model
        return ops.scale(scores, 1.0 / math.sqrt(width))


@defect("M2.2", "M2.4")
class keys_and_values_exchanged(MultiHead):
    """The value map makes the keys and the key map the values."""

    def keys_and_values(self, x: Var, p: Scope, where: Where) -> tuple[Var, Var]:
        k, v = super().keys_and_values(x, p, where)
        return v, k


@defect("M2.2", "M2.6")
class weights_used_transposed(Linear):
    """The projections use x W instead of x W^T."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        if name not in ("query", "key", "value"):
            return super().__call__(x, p, name)
        y, bias = ops.matmul(x, p[f"{name}.weight"]), p.get(f"{name}.bias")
        return y if bias is None else ops.add(y, bias)


@defect("M2.2")
class query_bias_dropped(Projections):
    """The bias of the query map is stored and not added."""

    def project_q(self, x: Var, p: Scope) -> Var:
        return ops.matmul(x, ops.swap(p["query.weight"]))


@defect("M2.3")
class loop_over_heads(MultiHead):
    """Heads attend one after the other."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        q = self.split(self.parts.projections.project_q(query, p), self.config.num_heads)
        allowed = self.allowed_for(where.mask, q.shape[0], q.shape[2], k.shape[2])
        heads = []
        for h in range(self.config.num_heads):
            one = [ops.index(x, (slice(None), slice(h, h + 1))) for x in (q, k, v)]
            heads.append(self.parts.attention(one[0], one[1], one[2], where.but(mask=allowed)))
        joined = {name: ops.concat([head[name] for head in heads], axis=1) for name in ("output", "weights")}
        return {"output": self.combine(self.merge(joined["output"]), p), "weights": joined["weights"]}


@defect("M2.4", "M2.2", "M2.6")
class no_output_projection(MultiHead):
    """The joined heads are returned as they are."""

    def combine(self, concatenated: Var, p: Scope) -> Var:
        return concatenated


@defect("M2.4")
class output_bias_dropped(MultiHead):
    """The bias of the output map is stored and not added."""

    def combine(self, concatenated: Var, p: Scope) -> Var:
        return ops.matmul(concatenated, ops.swap(p["output.weight"]))


@defect("M2.4", "M2.6")
class heads_averaged(MultiHead):
    """Every head's place is filled with the mean of all heads."""

    def merge(self, x: Var) -> Var:
        B, H, T, d = x.shape
        mean = ops.matmul(Var(np.full((H, H), 1.0 / H)), ops.reshape(x, (B, H, T * d)))
        return super().merge(ops.reshape(mean, (B, H, T, d)))


@defect("M2.4", "M2.9")
class combine_without_transpose(MultiHead):
    """The heads are joined without moving their axis back behind the positions."""

    def merge(self, x: Var) -> Var:
        B, H, T, d = x.shape
        return ops.reshape(x, (B, T, H * d))


@defect("M2.4", "M2.2", "M2.9")
class split_without_transpose(MultiHead):
    """Features are cut into heads by a reshape that mixes positions, and put back by its mirror image."""

    def split(self, x: Var, heads: int) -> Var:
        B, T, D = x.shape
        return ops.reshape(x, (B, heads, T, D // heads))

    def merge(self, x: Var) -> Var:
        B, H, T, d = x.shape
        return ops.reshape(x, (B, T, H * d))


@defect("M2.4", "M2.2")
class last_head_dropped(MultiHead):
    """The last head does not reach the output map."""

    def merge(self, x: Var) -> Var:
        H = x.shape[1]
        return super().merge(ops.where((np.arange(H) < max(1, H - 1))[:, None, None], x, 0.0))


@defect("M2.4", "M2.2")
class heads_joined_in_reverse(MultiHead):
    """The heads are joined last to first."""

    def merge(self, x: Var) -> Var:
        return super().merge(ops.index(x, (slice(None), slice(None, None, -1))))


@defect("M2.4")
class output_map_per_head(MultiHead):
    """Each head goes through its own block of the output map, and heads are never mixed."""

    def combine(self, concatenated: Var, p: Scope) -> Var:
        D, H = concatenated.shape[-1], self.config.num_heads
        blocks = np.kron(np.eye(H), np.ones((D // H, D // H)))
        y, bias = (
            ops.matmul(concatenated, ops.swap(ops.scale(p["output.weight"], blocks))),
            p.get("output.bias"),
        )
        return y if bias is None else ops.add(y, bias)


@defect("M2.4")
class output_map_twice(MultiHead):
    """The output map is applied twice."""

    def combine(self, concatenated: Var, p: Scope) -> Var:
        return super().combine(super().combine(concatenated, p), p)


@defect("M2.5")
class keys_reshaped_with_query_length(MultiHead):
    """Keys and values are given the length of the queries."""

    def __call__(self, query: Var, key_value: Var, p: Scope, where: Where) -> dict[str, Var]:
        B, T, D = query.shape
        return super().__call__(query, ops.reshape(key_value, (B, T, D)), p, where)


@defect("M2.5")
class output_of_key_length(MultiHead):
    """The output is cut or repeated to the number of keys."""

    def __call__(self, query: Var, key_value: Var, p: Scope, where: Where) -> dict[str, Var]:
        found = super().__call__(query, key_value, p, where)
        rows = np.arange(key_value.shape[1]) % query.shape[1]
        return {**found, "output": ops.index(found["output"], (slice(None), rows))}


@defect("M2.7")
class weights_averaged(MultiHead):
    """The weights returned are the mean over the heads, in every head's place."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        found = super().attend(query, k, v, p, where)
        w = found["weights"].value
        return {**found, "weights": Var(np.broadcast_to(w.mean(1, keepdims=True), w.shape))}


@defect("M2.7")
class weights_without_head_axis(MultiHead):
    """The weights returned are averaged, (B, T, S)."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        found = super().attend(query, k, v, p, where)
        return {**found, "weights": Var(found["weights"].value.mean(1))}


@defect("M2.7")
class returned_weights_after_dropout(MultiHead):
    """In training the weights returned have been through dropout."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        found = super().attend(query, k, v, p, where)
        return {**found, "weights": self.parts.dropout(found["weights"], "attention")}


@defect("M2.7a")
class heads_identical(ReferenceComponent):
    """One head is initialised and the others are copies of it."""

    def initial(self) -> dict[str, Array]:
        values = super().initial()
        if self.operation == "multi_head_attention":
            for name in ("query.weight", "key.weight"):
                rows = values[name].shape[0] // self.config.num_heads
                values[name] = np.tile(values[name][:rows], (self.config.num_heads, 1))
        return values


@defect("M2.11")
class extra_parameter_per_head(ReferenceComponent):
    """Each head also learns a factor, on top of the four maps."""

    def shapes(self) -> Shapes:
        own: Shapes = {}
        if self.operation == "multi_head_attention":
            own = {f"head{h}.gain": (1,) for h in range(self.config.num_heads)}
        return {**super().shapes(), **own}

    def load(self, parameters: Any) -> None:
        super().load({**{name: np.ones(shape) for name, shape in self.shapes().items()}, **parameters})


@defect("M2.11")
class heads_as_wide_as_the_model(ReferenceComponent):
    """The maps have num_heads * d_model rows, of which the first d_model are used."""

    def parameters(self) -> dict[str, Array]:
        held = super().parameters()
        if self.operation == "multi_head_attention":
            for name in ("query.weight", "key.weight", "value.weight"):
                held[name] = np.tile(held[name], (self.config.num_heads, 1))
        return held


@defect("M2.12")
class query_gradient_dropped(Projections):
    """No gradient flows back to the query."""

    def project_q(self, x: Var, p: Scope) -> Var:
        return super().project_q(detach(x), p)


@defect("M2.12")
class value_map_not_trained(Projections):
    """No gradient reaches the value map."""

    def project_v(self, x: Var, p: Scope) -> Var:
        return super().project_v(x, Scope({n: detach(v) for n, v in p.values.items()}, p.prefix))


@defect("M2.12")
class gradient_of_first_row_only(ReferenceComponent):
    """Parameter gradients are those of the first row of the batch, times the batch."""

    def gradients(self, inputs: Any, cotangents: Any) -> Gradients:
        found = super().gradients(inputs, cotangents)
        if self.operation != "multi_head_attention":
            return found
        rows = len(inputs["query"])
        first = {
            n: x[:1] if n != "mask" or (x.ndim == 3 and len(x) == rows) else x for n, x in inputs.items()
        }
        alone = super().gradients(first, {n: x[:1] for n, x in cotangents.items()})
        return Gradients(found.inputs, {n: rows * g for n, g in alone.parameters.items()})
