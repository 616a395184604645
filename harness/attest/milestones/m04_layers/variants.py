"""Correct variants of layers and stacks: unusual, and every criterion of M4 must pass them."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import variant
from attest.milestones.m04_layers.defects.norms import mean, power
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.layers import Layers
from attest.reference.parts.norms import LayerNorm, Residual, Sublayer
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@variant("M4")
class norm_by_inverse_root(LayerNorm):
    """The norm multiplies by (variance + eps)^-1/2, with the weight folded in."""

    def __call__(self, x: Var, p: Scope) -> Var:
        centred = ops.sub(x, mean(x, -1))
        inverse = power(ops.add(mean(ops.mul(centred, centred), -1), self.config.norm_eps), -0.5)
        return ops.add(ops.mul(centred, ops.mul(inverse, p["weight"])), p["bias"])


@variant("M4")
class norm_centred_by_a_matrix(LayerNorm):
    """The mean is subtracted by a projection matrix."""

    def __call__(self, x: Var, p: Scope) -> Var:
        width = x.shape[-1]
        projection = Var(np.eye(width) - 1.0 / width)
        centred = ops.sub(x, mean(x, -1))
        return super().__call__(ops.matmul(centred, projection), p)


@variant("M4")
class query_key_value_in_one_matrix(Layers):
    """Self-attention multiplies by one stacked matrix and cuts the result in three."""

    def self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        width = self.config.d_model
        stacked = ops.concat([p[f"{name}.weight"] for name in ("query", "key", "value")], axis=0)
        joined = ops.matmul(x, ops.swap(stacked))
        if p.get("query.bias") is not None:
            joined = ops.add(joined, ops.concat([p[f"{n}.bias"] for n in ("query", "key", "value")], axis=0))
        q, k, v = (
            self.parts.heads.split(ops.columns(joined, i * width, (i + 1) * width), self.config.num_heads)
            for i in range(3)
        )
        allowed = self.parts.heads.allowed_for(where.mask, x.shape[0], x.shape[1], x.shape[1])
        heads = self.parts.attention(q, k, v, where.but(mask=allowed))["output"]
        return self.parts.heads.combine(self.parts.heads.merge(heads), p)


@variant("M4")
class residual_from_the_right(Residual):
    """f(x) + x, with the dropout mask drawn whether it is used or not."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        inner = self.parts.norm(x, norm) if self.config.norm == "pre" else x
        joined = ops.add(self.parts.dropout(sublayer(inner), "sublayer"), x)
        return joined if self.config.norm == "pre" else self.parts.norm(joined, norm)


@variant("M4")
class triangle_joined_with_the_mask(Layers):
    """The triangle is written into the mask, expanded to every pair."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        length = x.shape[1]
        triangle: Array = np.tri(length, dtype=bool)
        whole = (
            triangle[None]
            if where.mask is None
            else np.broadcast_to(triangle & where.mask, (x.shape[0], length, length))
        )
        return self.self_attention(x, p, where.but(mask=whole, causal=False))


@variant("M4")
class triangle_kept_and_grown(Layers):
    """One large triangle is kept and cut to the length of each call."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        length = x.shape[1]
        if not hasattr(self, "_kept") or len(self._kept) < length:
            self._kept: Array = np.tri(2 * length, dtype=bool)
        return self.self_attention(
            x,
            p,
            where.but(
                mask=self.parts.masks.combine_masks(where.mask, self._kept[:length, :length]), causal=False
            ),
        )


@variant("M4")
class padded_positions_come_out_zero(ReferenceComponent):
    """Outputs at positions that key padding hides are zero: the spec leaves them open."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        hidden = self.hidden(inputs)
        return (
            {n: np.where(hidden, 0, v).astype(v.dtype) for n, v in seen.items()}
            if hidden is not None
            else seen
        )

    def hidden(self, inputs: Any) -> Array | None:
        """(B, T, 1) where the mask is key padding."""
        mask = inputs.get("mask")
        if (
            mask is None
            or mask.ndim != 3
            or mask.shape[1] != 1
            or not self.operation.startswith(("en", "de"))
        ):
            return None
        if inputs["x"].shape[1] == 1:
            return None  # (B, 1, 1) is a mask of pairs as well
        hidden: Array = ~np.swapaxes(mask, 1, 2)
        return hidden

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Any:
        hidden = self.hidden(inputs)
        if hidden is not None:
            cotangents = {n: np.where(hidden, 0, v).astype(v.dtype) for n, v in cotangents.items()}
        return super().gradients(inputs, cotangents)


@variant("M4")
class layers_called_from_the_top(Layers):
    """The stack is a recursion: layer i asks for the output of layer i - 1."""

    def encoder(self, x: Var, p: Scope, where: Where) -> Var:
        def output(i: int) -> Var:
            return (
                x if i < 0 else self.encoder_layer(output(i - 1), self.layer_scope(p, i), where.but(layer=i))
            )

        return self.final_norm(output(self.config.num_encoder_layers - 1), p)


@variant("M4")
class keys_of_the_memory_first(Layers):
    """Keys and values of the memory are computed before the queries, as a cache would."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        k, v = self.parts.heads.keys_and_values(memory, p, where)
        return self.parts.heads.attend(x, k, v, p, where)["output"]


@variant("M4")
class returns_more_than_asked(ReferenceComponent):
    """Layers return something besides the output, here the input's norm."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if "x" in inputs and "output" in seen:
            seen["size"] = np.linalg.norm(inputs["x"], axis=-1).astype(self.dtype)
        return seen
