"""Defects of attention that begin at a size or with a run of hidden keys.

Shapes: q (..., T, d), k and v (..., S, d), a mask that broadcasts to (..., T, S).
"""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.attention import Attention
from attest.reference.parts.masks import Masks
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var


@defect("M1.4", "M1.2")
class first_key_always_visible(Masks):
    """Key padding lets the first key through, so that no row is ever empty."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        if mask is not None and mask.shape[-2] == 1:
            mask = np.asarray(mask).astype(bool) | (np.arange(mask.shape[-1]) == 0)
        return super().combine_masks(mask, causal)


class HiddenBlock(Attention):
    """A running maximum that starts from the first block: where all of it is hidden, it is -inf - -inf."""

    block = 0

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        weights = super().weights_from(scores, allowed, where)
        if allowed is None or allowed.shape[-1] <= self.block:
            return weights
        lost = ~allowed[..., : self.block].any(-1, keepdims=True) & allowed.any(-1, keepdims=True)
        return ops.scale(weights, np.where(lost, np.nan, 1.0))


@defect("M1.2", "M1.4")
class hidden_block_of_16_is_nan(HiddenBlock):
    """The softmax runs over blocks of 16 keys and gives NaN where the first block is hidden."""

    block = 16


@defect("M1.2", "M1.4")
class hidden_block_of_128_is_nan(HiddenBlock):
    """The softmax runs over blocks of 128 keys and gives NaN where the first block is hidden."""

    block = 128


@defect("M1.2")
class late_queries_repeat_the_last_block(Attention):
    """Queries from 128 on are answered as query 127."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        rows = np.minimum(np.arange(q.shape[-2]), 127)
        return super().scores(ops.index(q, (..., rows, slice(None))), k, where)


@defect("M1.2")
class scale_of_a_whole_root(Attention):
    """The root of the width is rounded down beyond 64."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        width = q.shape[-1]
        return ops.scale(scores, 1.0 / (math.isqrt(width) if width > 64 else math.sqrt(width)))


@defect("M1.2")
class window_of_64(Attention):
    """A query sees 64 keys on either side of it; shorter inputs do not show it."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        T, S = scores.shape[-2:]
        near = np.abs(np.arange(S) - np.arange(T)[:, None]) <= 64
        if T < 65:
            return super().weights_from(scores, allowed, where)
        return super().weights_from(scores, near if allowed is None else near & allowed, where)


@defect("M1.5", "M1.5a")
class triangle_in_int8(Masks):
    """The triangle compares indices of eight bits, so that positions from 128 on are negative."""

    def causal_allowed(self, T: int, S: int) -> Array:
        keys, queries = np.arange(S).astype(np.int8), (np.arange(T) + S - T).astype(np.int8)
        return np.asarray(keys[None, :] <= queries[:, None])


@defect("M1.4c")
class pads_compared_as_uint8(Masks):
    """Ids and padding are compared in eight bits."""

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return super().padding_mask(np.asarray(ids).astype(np.uint8), pad_id % 256)


@defect("M1.4b")
class lengths_as_int8(Masks):
    """Lengths are kept in eight bits."""

    def length_mask(self, lengths: Array, size: int) -> Array:
        return super().length_mask(np.asarray(lengths).astype(np.int8), size)
