"""Defects of attention between blocks.

Shapes: q (B, H, T, d), k and v (B, H, S, d), blocks (H or 1, M, N), allowed (H or 1, T, S).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.block_sparse import BlockSparse
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var, detach


@defect("M8.11")
class partial_block_as_full(BlockSparse):
    """A block that the triangle cuts is taken as full: its queries see the rest of their own block."""

    def allowed(self, blocks: Array, where: Where, T: int, S: int) -> Array:
        if not where.causal:
            return super().allowed(blocks, where, T, S)
        b = self.config.block
        rows, keys = np.arange(T)[:, None] + S - T, np.arange(S)[None, :]
        cut: Array = self.expanded(blocks, T, S) & ((keys <= rows) | (keys // b == rows // b))
        return cut


@defect("M8.11")
class block_index_transposed(BlockSparse):
    """Rows and columns of the blocks are exchanged, where both have as many."""

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        square = blocks.shape[1] == blocks.shape[2]
        return super().expanded(blocks.swapaxes(1, 2) if square else blocks, T, S)


@defect("M8.11")
class last_block_dropped(BlockSparse):
    """The last block of keys is left out where it is short."""

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        allowed = super().expanded(blocks, T, S)
        if S % self.config.block:
            allowed[..., S - S % self.config.block :] = False
        return allowed


@defect("M8.11")
class head_broadcast(BlockSparse):
    """All heads take the blocks of the first."""

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        return super().expanded(blocks[:1], T, S)


@defect("M8.11")
class batch_broadcast(BlockSparse):
    """Rows after the first attend to nothing: the blocks were made for one."""

    def __call__(self, q: Var, k: Var, v: Var, blocks: Array, where: Where) -> Var:
        found = super().__call__(q, k, v, blocks, where)
        first = np.arange(q.shape[0])[:, None, None, None] == 0
        return ops.where(np.broadcast_to(first, found.shape), found, 0.0)


@defect("M8.11")
class heads_by_row(BlockSparse):
    """Where there are as many rows as heads, the blocks of head h are taken for row h."""

    def __call__(self, q: Var, k: Var, v: Var, blocks: Array, where: Where) -> Var:
        if q.shape[0] != blocks.shape[0] or blocks.shape[0] == 1:
            return super().__call__(q, k, v, blocks, where)
        allowed = self.allowed(blocks, where, q.shape[-2], k.shape[-2])[:, None]
        return self.parts.attention(q, k, v, Where(allowed))["output"]


@defect("M8.11")
class blocks_aligned_at_the_end(BlockSparse):
    """The short block is the first one: blocks are counted from the last key."""

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        b = self.config.block
        rows = (np.arange(T) + -T % b) // b
        keys = (np.arange(S) + -S % b) // b
        return np.asarray(blocks, bool)[:, rows[:, None], keys[None, :]]


@defect("M8.11")
class block_of_sixteen(BlockSparse):
    """The size of a block is 16 whatever is configured, and missing entries repeat the last."""

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        rows = np.minimum(np.arange(T) // 16, blocks.shape[1] - 1)
        keys = np.minimum(np.arange(S) // 16, blocks.shape[2] - 1)
        return np.asarray(blocks, bool)[:, rows[:, None], keys[None, :]]


@defect("M8.11")
class blocks_ignored(BlockSparse):
    """Every block is visible."""

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        return np.ones_like(super().expanded(blocks, T, S))


@defect("M8.11")
class blocks_inverted(BlockSparse):
    """True is taken for a block that is skipped."""

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        return ~super().expanded(blocks, T, S)


@defect("M8.11")
class causal_flag_of_blocks_ignored(BlockSparse):
    """Blocks behind the diagonal are visible to a causal call too."""

    def allowed(self, blocks: Array, where: Where, T: int, S: int) -> Array:
        return super().allowed(blocks, where.but(causal=False), T, S)


@defect("M8.11")
class blind_block_averages(BlockSparse):
    """A query that sees no block gets the mean of the values."""

    def __call__(self, q: Var, k: Var, v: Var, blocks: Array, where: Where) -> Var:
        found = super().__call__(q, k, v, blocks, where)
        allowed = self.allowed(blocks, where, q.shape[-2], k.shape[-2])
        sees = np.broadcast_to(allowed.any(axis=-1, keepdims=True), found.shape)
        return ops.where(sees, found, np.broadcast_to(v.value.mean(-2, keepdims=True), found.shape))


@defect("M8.11")
class diagonal_block_always_seen(BlockSparse):
    """A block always sees itself, whatever the pattern says."""

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        own = np.eye(blocks.shape[1], blocks.shape[2], dtype=bool)
        return super().expanded(blocks | own, T, S)


@defect("M8.16")
class no_gradient_for_short_blocks(BlockSparse):
    """Keys of a short last block get no gradient."""

    def __call__(self, q: Var, k: Var, v: Var, blocks: Array, where: Where) -> Var:
        S = k.shape[-2]
        whole = np.arange(S)[:, None] < S - S % self.config.block
        still = ops.add(ops.where(whole, k, 0.0), ops.where(~whole, detach(k), 0.0))
        return super().__call__(q, still, v, blocks, where)


@defect("M8.17")
class blocks_cut_to_fit(ReferenceComponent):
    """Blocks beyond the lengths and heads are cut off."""

    def accept(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        blocks, given = inputs.get("blocks"), dict(inputs)
        if blocks is not None and np.ndim(blocks) == 3:
            b, H = self.config.block, np.shape(given["q"])[1]
            M, N = (-(-np.shape(given[n])[-2] // b) for n in "qk")
            given["blocks"] = np.asarray(blocks)[: max(H, 1), :M, :N]
        return super().accept(given)


@defect("M8.18")
class blocks_of_the_first_call(BlockSparse):
    """The mask is made once for a shape, from the blocks of the first call."""

    kept: dict[tuple[int, ...], Array] | None = None

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        self.kept = self.kept or {}
        key = (T, S, *blocks.shape)
        return self.kept.setdefault(key, super().expanded(blocks, T, S))
