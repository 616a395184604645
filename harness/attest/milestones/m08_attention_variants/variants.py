"""Correct attention in unusual clothes: every criterion of M8 must let these live.

Shapes: q (B, H, T, d), k and v (B, H, S, d).
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import variant
from attest.reference import ops
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


@variant("M8")
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
