"""Defects of norms, layers and stacks that begin at a size or with a run of hidden keys.

Shapes: x (B, T, D), memory (B, S, D), masks True where a query may attend.
"""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.layers import Layers
from attest.reference.parts.norms import LayerNorm, Sublayer
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Var, node

HALF = 65504.0  # the largest float16


@defect("M4.9")
class norm_unbiased_beyond_64(LayerNorm):
    """Beyond 64 features the variance is divided by one less than their number."""

    def __call__(self, x: Var, p: Scope) -> Var:
        width = x.shape[-1]
        if width <= 64:
            return super().__call__(x, p)
        smaller = ops.scale(p["weight"], math.sqrt((width - 1) / width))
        return ops.layer_norm(x, smaller, p["bias"], self.config.norm_eps)


@defect("M4.2a", "M4.6")
class fifth_layer_skipped(Layers):
    """The fifth layer of a stack passes its input on."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        return x if where.layer == 4 else super().encoder_layer(x, p, where)

    def decoder_layer(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return x if where.layer == 4 else super().decoder_layer(x, memory, p, where)


@defect("M4.3", "M4.2a")
class memory_beyond_64_ignored(Layers):
    """Cross-attention reads the first 64 positions of the memory."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        S = memory.shape[1]
        if S <= 64:
            return super().cross_attention(x, memory, p, where)
        near = np.arange(S) < 64
        shown = near[None] if where.mask is None else np.asarray(where.mask) & near
        blind = ~shown.any(-1, keepdims=True)
        mask = np.where(blind, near if where.mask is None else where.mask, shown)
        return super().cross_attention(x, memory, p, where.but(mask=mask))


@defect("M4.1", "M4.10")
class first_position_never_padding(Layers):
    """In an encoder every position sees the first, padding or not."""

    def self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        if where.mask is not None and where.place == "encoder":
            where = where.but(mask=np.asarray(where.mask) | (np.arange(x.shape[1]) == 0))
        return super().self_attention(x, p, where)


@defect("M4.3", "M4.10a")
class first_source_never_padding(Layers):
    """Cross-attention sees the first position of the memory, padding or not."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        if where.mask is not None:
            where = where.but(mask=np.asarray(where.mask) | (np.arange(memory.shape[1]) == 0))
        return super().cross_attention(x, memory, p, where)


@defect("M4.9")
class wide_rows_normed_in_single_precision(LayerNorm):
    """Beyond 64 features a float64 input is rounded to float32 before its mean is taken."""

    def __call__(self, x: Var, p: Scope) -> Var:
        rounded = x.value.astype(np.float32).astype(x.value.dtype)
        narrow = node(rounded, (x,), lambda g: (g,)) if x.shape[-1] > 64 else x
        return super().__call__(narrow, p)


@defect("M4.2", "M9.4")
class layers_clamped_to_half_precision(Layers):
    """What a layer puts out is cut at the largest float16, 65504."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        return _clamped(super().encoder_layer(x, p, where))

    def causal_block(self, x: Var, attend: Sublayer, p: Scope) -> Var:
        return _clamped(super().causal_block(x, attend, p))


def _clamped(x: Var) -> Var:
    inside = np.abs(x.value) <= HALF
    return node(np.clip(x.value, -HALF, HALF), (x,), lambda g: (g * inside,))
