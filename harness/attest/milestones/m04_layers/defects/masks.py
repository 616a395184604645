"""Defects of masks in layers and stacks: what the decoder and the encoder may see.

Shapes: x (B, T, D), memory (B, S, D), masks True where a query may attend.
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.feed_forward import FeedForward
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.layers import Layers
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@defect("M4.5", "M4.3", "M4.11")
class no_causal_in_decoder(Layers):
    """The decoder's self-attention sees the future."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        return self.self_attention(x, p, where.but(causal=False))


@defect("M4.5")
class causal_mask_of_first_length(Layers):
    """The triangle is made at the first call and cut or stretched to later lengths."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        length = x.shape[1]
        if not hasattr(self, "_first"):
            self._first = self.parts.masks.causal_allowed(length, length)
        kept = np.ones((length, length), bool)
        size = min(length, len(self._first))
        kept[:size, :size] = self._first[:size, :size]
        return self.self_attention(
            x, p, where.but(mask=self.parts.masks.combine_masks(where.mask, kept), causal=False)
        )


@defect("M4.5", "M4.11")
class mask_replaces_triangle(Layers):
    """With a mask given, the triangle is left out."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        return self.self_attention(x, p, where.but(causal=where.mask is None))


@defect("M4.5", "M4.3")
class triangle_replaces_mask(Layers):
    """With the triangle in place, the mask that comes on top is dropped."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        return self.self_attention(x, p, where.but(mask=None, causal=True))


@defect("M4.5")
class no_causal_in_training(Layers):
    """The triangle is left out in train mode, as if teacher forcing made it needless."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        return self.self_attention(x, p, where.but(causal=self.noise is None))


@defect("M4.5")
class no_causal_with_pre_norm(Layers):
    """The pre-norm path forgets the triangle."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        return self.self_attention(x, p, where.but(causal=self.config.norm != "pre"))


@defect("M4.5", "M4.11")
class causal_in_first_layer_only(Layers):
    """The triangle is not handed on to the second layer."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        return self.self_attention(x, p, where.but(causal=not where.layer))


@defect("M4.5", "M4.3", "M4.11")
class decoder_sees_one_ahead(Layers):
    """The triangle is one diagonal too wide."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        length = x.shape[1]
        wide: Array = np.tri(length, k=1, dtype=bool)
        return self.self_attention(
            x, p, where.but(mask=self.parts.masks.combine_masks(where.mask, wide), causal=False)
        )


@defect("M4.5", "M4.11")
class decoder_looks_backwards(Layers):
    """The triangle is transposed: only the future is seen."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        length = x.shape[1]
        flipped: Array = np.tri(length, dtype=bool).T
        return self.self_attention(
            x, p, where.but(mask=self.parts.masks.combine_masks(where.mask, flipped), causal=False)
        )


@defect("M4.5", "M4.11")
class decoder_reads_only_itself(Layers):
    """A position of the decoder sees itself and nothing before it."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        return self.self_attention(x, p, where.but(mask=np.eye(x.shape[1], dtype=bool), causal=False))


@defect("M4.3", "M4.3a")
class decoder_excludes_the_diagonal(Layers):
    """A position of the decoder may not see itself."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        strict: Array = np.tri(x.shape[1], k=-1, dtype=bool)
        return self.self_attention(
            x, p, where.but(mask=self.parts.masks.combine_masks(where.mask, strict), causal=False)
        )


@defect("M4.10", "M4.11")
class causal_in_encoder(Layers):
    """The encoder's self-attention hides the future."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        triangle = self.parts.masks.causal_allowed(x.shape[1], x.shape[1])
        return super().encoder_layer(
            x, p, where.but(mask=self.parts.masks.combine_masks(where.mask, triangle))
        )


@defect("M4.10", "M4.1", "M4.11")
class source_padding_ignored(Layers):
    """The encoder ignores its mask."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        return super().encoder_layer(x, p, where.but(mask=None))


@defect("M4.10")
class source_padding_ignored_in_training(Layers):
    """The encoder's mask is handed on in eval mode only."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        return super().encoder_layer(x, p, where if self.noise is None else where.but(mask=None))


@defect("M4.10a")
class memory_mask_ignored_in_training(Layers):
    """The mask of the memory is handed on in eval mode only."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return super().cross_attention(x, memory, p, where if self.noise is None else where.but(mask=None))


@defect("M4.10", "M4.11")
class source_padding_in_first_layer_only(Layers):
    """The encoder's mask reaches the first layer only."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        return super().encoder_layer(x, p, where.but(mask=None) if where.layer else where)


@defect("M4.10", "M4.11")
class encoder_mask_of_the_first_row(Layers):
    """Every row of the batch gets the first row's padding."""

    def encoder_layer(self, x: Var, p: Scope, where: Where) -> Var:
        first = where.mask[:1] if where.mask is not None and where.mask.ndim == 3 else where.mask
        return super().encoder_layer(x, p, where.but(mask=first))


@defect("M4.10", "M4.11")
class sequence_mean_added(FeedForward):
    """A summary of the whole sequence, padding included, is added after every sublayer."""

    def __call__(self, x: Var, p: Scope) -> Var:
        share = 1.0 / x.shape[1]
        average = ops.matmul(Var(np.full((1, x.shape[1]), share)), x)
        return ops.add(super().__call__(x, p), ops.scale(average, 0.1))


@defect("M4.10a", "M4.11")
class source_padding_ignored_in_cross(Layers):
    """Cross-attention ignores the memory's mask."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return super().cross_attention(x, memory, p, where.but(mask=None))


@defect("M4.10a", "M4.11")
class memory_mask_in_first_layer_only(Layers):
    """The memory's mask reaches the first decoder layer only."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return super().cross_attention(x, memory, p, where.but(mask=None) if where.layer else where)


@defect("M4.10a", "M4.3")
class target_mask_on_cross(Layers):
    """Cross-attention uses the target's mask where the lengths are equal."""

    def decoder_layer(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        other = where.mask if x.shape[1] == memory.shape[1] else where.memory_mask
        return super().decoder_layer(x, memory, p, where.but(memory_mask=other))


@defect("M4.10a")
class memory_mask_over_heads(MultiHead):
    """With as many rows as heads, the batch axis of a mask is taken for the heads."""

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        if mask is not None and mask.ndim == 3 and B == mask.shape[0] == self.config.num_heads:
            return mask[None]
        return super().allowed_for(mask, B, T, S)


@defect("M4.3", "M4.6")
class decoder_window_of_eight(Layers):
    """A position of the decoder sees no further back than eight positions."""

    def decoder_self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        positions = np.arange(x.shape[1])
        near: Array = positions[:, None] - positions[None, :] < 8
        return super().decoder_self_attention(
            x, p, where.but(mask=self.parts.masks.combine_masks(where.mask, near))
        )
