"""Correct chunked, linear and block-sparse attention in unusual clothes: every criterion lets them live.

Shapes: q (B, H, T, d), k and v (B, H, S, d).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.parts.block_sparse import BlockSparse
from attest.reference.parts.chunked import AllAtOnce, Chunked
from attest.reference.parts.linear_attention import LinearAttention
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var


class _Blocks(Chunked):
    """Blocks of a size of its own: the size is a matter of speed."""

    size = 1

    def bounds(self, S: int) -> list[tuple[int, int]]:
        return [(first, min(first + self.size, S)) for first in range(0, S, self.size)]


@variant("M8")
class online_in_blocks_of_1(_Blocks):
    """One key at a time, whatever is configured."""

    size = 1


@variant("M8")
class online_in_blocks_of_7(_Blocks):
    """Seven keys at a time, whatever is configured."""

    size = 7


@variant("M8")
class online_in_blocks_of_64(_Blocks):
    """Sixty-four keys at a time, whatever is configured."""

    size = 64


@variant("M8", spared=("M8.9",))
class all_keys_at_once(AllAtOnce):
    """No blocks: the softmax over all keys, and the logarithm of its denominator."""


@variant("M8")
class blocks_from_the_last(Chunked):
    """The last block of keys is read first."""

    def bounds(self, S: int) -> list[tuple[int, int]]:
        return super().bounds(S)[::-1]


@variant("M8")
class linear_by_running_sums(LinearAttention):
    """Sums of phi(k) v and phi(k) over the keys, carried from one to the next; queries read them."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> Var:
        shown = self._shown(where, k)
        features = ops.where(np.broadcast_to(shown, k.shape), self.features(k), 0.0)
        values = ops.reshape(v, (*v.shape[:-1], 1, v.shape[-1]))
        products = ops.mul(ops.reshape(features, (*k.shape, 1)), values)
        S, T = k.shape[-2], q.shape[-2]
        reads = np.arange(T) + S - T if where.causal else np.full(T, S - 1)
        mixed, total = _read(_running(products), reads), _read(_running(features), reads)
        heads = ops.reshape(self.features(q), (*q.shape[:-1], 1, q.shape[-1]))
        output = ops.matmul(heads, mixed)
        summed = ops.matmul(heads, ops.reshape(total, (*total.shape, 1)))
        flat = ops.reshape(output, (*output.shape[:-2], output.shape[-1]))
        return self.divided(flat, ops.reshape(summed, summed.shape[:-2]))

    def _shown(self, where: Where, k: Var) -> Array:
        if where.mask is None:
            return np.ones((1, 1, k.shape[-2], 1), bool)
        return np.asarray(where.mask, bool)[:, :1, :].swapaxes(1, 2)[:, None]


def _read(sums: Var, places: Array) -> Var:
    """What has been summed up to these places of the keys' axis; zeros before the first."""
    found = ops.index(sums, (slice(None), slice(None), places))
    begun = (places >= 0).reshape(-1, *[1] * (found.ndim - 3))
    return ops.where(np.broadcast_to(begun, found.shape), found, 0.0)


def _running(x: Var) -> Var:
    """Sums over the axis of the keys, up to each."""
    S = x.shape[2]
    flat = ops.reshape(x, (*x.shape[:3], -1))
    return ops.reshape(ops.matmul(Var(np.tril(np.ones((S, S)))), flat), x.shape)


@variant("M8")
class linear_by_chunks(LinearAttention):
    """Three keys at a time: the weights of a chunk and the sums of those before, added."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> Var:
        weights = self.weights(q, k, self.allowed(where, q, k))
        S = k.shape[-2]
        parts = [slice(first, min(first + 3, S)) for first in range(0, S, 3)]
        mixed = [ops.mix(ops.index(weights, (..., p)), ops.index(v, (..., p, slice(None)))) for p in parts]
        totals = [ops.sum_last(ops.index(weights, (..., p))) for p in parts]
        return self.divided(_sum(mixed), _sum(totals))


def _sum(parts: list[Var]) -> Var:
    whole = parts[0]
    for part in parts[1:]:
        whole = ops.add(whole, part)
    return whole


@variant("M8")
class split_keys_merged(Chunked):
    """The keys in two halves, merged by their log-sum-exp, the first half first."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        S = k.shape[-2]
        allowed = self.parts.masks.allowed(where, q.shape[-2], S)
        cuts = [(0, S // 2), (S // 2, S)] if S > 1 else [(0, S)]
        parts = [self._part(q, k, v, allowed, cut) for cut in cuts]
        logs = np.stack([part["log_sum_exp"].value for part in parts])
        top = np.where(np.isneginf(logs.max(0)), 0.0, logs.max(0))
        shares = [ops.exp(ops.add(_finite(part["log_sum_exp"]), -top)) for part in parts]
        total = _sum(shares)
        inverse = np.where(total.value == 0, 0.0, 1.0 / np.where(total.value == 0, 1.0, total.value))
        whole = ops.elementwise(total, inverse, -inverse * inverse)
        mixed = [ops.mul(part["output"], _column(ops.mul(s, whole))) for part, s in zip(parts, shares)]
        with np.errstate(divide="ignore"):
            logarithm = ops.elementwise(total, np.log(total.value), inverse)
        return {"output": _sum(mixed), "log_sum_exp": ops.add(logarithm, top)}

    def _part(self, q: Var, k: Var, v: Var, allowed: Array | None, cut: tuple[int, int]) -> dict[str, Var]:
        keys, values = (ops.index(x, (..., slice(*cut), slice(None))) for x in (k, v))
        return super().__call__(q, keys, values, Where(self.allowed(allowed, *cut)))


def _finite(logs: Var) -> Var:
    """Minus infinity carries no gradient."""
    return ops.where(~np.isneginf(logs.value), logs, -np.inf)


def _column(x: Var) -> Var:
    return ops.reshape(x, (*x.shape, 1))


@variant("M8")
class blocks_one_by_one(BlockSparse):
    """Each block of queries gathers the keys of the blocks it sees, head by head."""

    def __call__(self, q: Var, k: Var, v: Var, blocks: Array, where: Where) -> Var:
        allowed = self.allowed(blocks, where, q.shape[-2], k.shape[-2])
        allowed = np.broadcast_to(allowed, (q.shape[1], *allowed.shape[1:]))
        heads = []
        for h, seen in enumerate(allowed):
            own = [ops.index(x, (slice(None), h)) for x in (q, k, v)]
            heads.append(self._head(own[0], own[1], own[2], seen))
        return ops.stack(heads, axis=1)

    def _head(self, q: Var, k: Var, v: Var, seen: Array) -> Var:
        rows = [slice(i, i + self.config.block) for i in range(0, len(seen), self.config.block)]
        return ops.concat([self._rows(ops.index(q, (slice(None), r)), k, v, seen[r]) for r in rows], axis=1)

    def _rows(self, q: Var, k: Var, v: Var, seen: Array) -> Var:
        keys = np.flatnonzero(seen.any(axis=0))
        if not keys.size:
            return Var(np.zeros((*q.shape[:2], v.shape[-1])))
        near: list[Any] = [ops.index(x, (slice(None), keys)) for x in (k, v)]
        return self.parts.attention(q, near[0], near[1], Where(seen[:, keys]))["output"]
