"""Defects of masks in layers and stacks: what the decoder and the encoder may see.

Shapes: x (B, T, D), memory (B, S, D), masks True where a query may attend.
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.formulas import Formulas
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@defect("M4.5", "M4.3", "M4.11")
class no_causal_in_decoder(Formulas):
    """The decoder's self-attention sees the future."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        return self.self_attention(x, mask, p, causal=False)


@defect("M4.5")
class causal_mask_of_first_length(Formulas):
    """The triangle is made at the first call and cut or stretched to later lengths."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        length = x.shape[1]
        if not hasattr(self, "_first"):
            self._first = self.causal_allowed(length, length)
        kept = np.ones((length, length), bool)
        size = min(length, len(self._first))
        kept[:size, :size] = self._first[:size, :size]
        return self.self_attention(x, self.combine_masks(mask, kept), p, causal=False)


@defect("M4.5", "M4.11")
class mask_replaces_triangle(Formulas):
    """With a mask given, the triangle is left out."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        return self.self_attention(x, mask, p, causal=mask is None)


@defect("M4.5", "M4.3")
class triangle_replaces_mask(Formulas):
    """With the triangle in place, the mask that comes on top is dropped."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        return self.self_attention(x, None, p, causal=True)


@defect("M4.5")
class no_causal_in_training(Formulas):
    """The triangle is left out in train mode, as if teacher forcing made it needless."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        return self.self_attention(x, mask, p, causal=self.noise is None)


@defect("M4.5")
class no_causal_with_pre_norm(Formulas):
    """The pre-norm path forgets the triangle."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        return self.self_attention(x, mask, p, causal=self.config.norm != "pre")


@defect("M4.5", "M4.11")
class causal_in_first_layer_only(Formulas):
    """The triangle is not handed on to the second layer."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        first = not p.prefix[:1].isdigit() or p.prefix.startswith("0.")
        return self.self_attention(x, mask, p, causal=first)


@defect("M4.5", "M4.3", "M4.11")
class decoder_sees_one_ahead(Formulas):
    """The triangle is one diagonal too wide."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        length = x.shape[1]
        wide: Array = np.tri(length, k=1, dtype=bool)
        return self.self_attention(x, self.combine_masks(mask, wide), p, causal=False)


@defect("M4.5", "M4.11")
class decoder_looks_backwards(Formulas):
    """The triangle is transposed: only the future is seen."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        length = x.shape[1]
        flipped: Array = np.tri(length, dtype=bool).T
        return self.self_attention(x, self.combine_masks(mask, flipped), p, causal=False)


@defect("M4.5", "M4.11")
class decoder_reads_only_itself(Formulas):
    """A position of the decoder sees itself and nothing before it."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        return self.self_attention(x, np.eye(x.shape[1], dtype=bool), p, causal=False)


@defect("M4.3", "M4.3a")
class decoder_excludes_the_diagonal(Formulas):
    """A position of the decoder may not see itself."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        strict: Array = np.tri(x.shape[1], k=-1, dtype=bool)
        return self.self_attention(x, self.combine_masks(mask, strict), p, causal=False)


@defect("M4.10", "M4.11")
class causal_in_encoder(Formulas):
    """The encoder's self-attention hides the future."""

    def encoder_layer(self, x: Var, mask: Array | None, p: Scope) -> Var:
        triangle = self.causal_allowed(x.shape[1], x.shape[1])
        return super().encoder_layer(x, self.combine_masks(mask, triangle), p)


@defect("M4.10", "M4.1", "M4.11")
class source_padding_ignored(Formulas):
    """The encoder ignores its mask."""

    def encoder_layer(self, x: Var, mask: Array | None, p: Scope) -> Var:
        return super().encoder_layer(x, None, p)


@defect("M4.10")
class source_padding_ignored_in_training(Formulas):
    """The encoder's mask is handed on in eval mode only."""

    def encoder_layer(self, x: Var, mask: Array | None, p: Scope) -> Var:
        return super().encoder_layer(x, mask if self.noise is None else None, p)


@defect("M4.10a")
class memory_mask_ignored_in_training(Formulas):
    """The mask of the memory is handed on in eval mode only."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        return super().cross_attention(x, memory, mask if self.noise is None else None, p)


@defect("M4.10", "M4.11")
class source_padding_in_first_layer_only(Formulas):
    """The encoder's mask reaches the first layer only."""

    def encoder_layer(self, x: Var, mask: Array | None, p: Scope) -> Var:
        later = p.prefix[:1].isdigit() and not p.prefix.startswith("0.")
        return super().encoder_layer(x, None if later else mask, p)


@defect("M4.10", "M4.11")
class encoder_mask_of_the_first_row(Formulas):
    """Every row of the batch gets the first row's padding."""

    def encoder_layer(self, x: Var, mask: Array | None, p: Scope) -> Var:
        first = mask[:1] if mask is not None and mask.ndim == 3 else mask
        return super().encoder_layer(x, first, p)


@defect("M4.10", "M4.11")
class sequence_mean_added(Formulas):
    """A summary of the whole sequence, padding included, is added after every sublayer."""

    def feed_forward(self, x: Var, p: Scope) -> Var:
        share = 1.0 / x.shape[1]
        average = ops.matmul(Var(np.full((1, x.shape[1]), share)), x)
        return ops.add(super().feed_forward(x, p), ops.scale(average, 0.1))


@defect("M4.10a", "M4.11")
class source_padding_ignored_in_cross(Formulas):
    """Cross-attention ignores the memory's mask."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        return super().cross_attention(x, memory, None, p)


@defect("M4.10a", "M4.11")
class memory_mask_in_first_layer_only(Formulas):
    """The memory's mask reaches the first decoder layer only."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        later = p.prefix[:1].isdigit() and not p.prefix.startswith("0.")
        return super().cross_attention(x, memory, None if later else mask, p)


@defect("M4.10a", "M4.3")
class target_mask_on_cross(Formulas):
    """Cross-attention uses the target's mask where the lengths are equal."""

    def decoder_layer(
        self, x: Var, memory: Var, mask: Array | None, memory_mask: Array | None, p: Scope
    ) -> Var:
        other = mask if x.shape[1] == memory.shape[1] else memory_mask
        return super().decoder_layer(x, memory, mask, other, p)


@defect("M4.10a")
class memory_mask_over_heads(Formulas):
    """With as many rows as heads, the batch axis of a mask is taken for the heads."""

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        if mask is not None and mask.ndim == 3 and B == mask.shape[0] == self.config.num_heads:
            return mask[None]
        return super().allowed_for(mask, B, T, S)


@defect("M4.3", "M4.6")
class decoder_window_of_eight(Formulas):
    """A position of the decoder sees no further back than eight positions."""

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        positions = np.arange(x.shape[1])
        near: Array = positions[:, None] - positions[None, :] < 8
        return super().decoder_self_attention(x, self.combine_masks(mask, near), p)
