"""Positions inside attention: rotary (https://arxiv.org/abs/2104.09864), ALiBi (https://arxiv.org/abs/2108.12409)
and the buckets of T5 (https://arxiv.org/abs/1910.10683, section 2.1).

Shapes: B batch, H heads, T queries, S keys, d width of a head, r features of it that are turned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula, function
from attest.reference.parts.positions import Learned, Positions, Sinusoids
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, rounded, tracks_error
from attest.reference.validation import rotated_width

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Rotary(Positions):
    """Pairs of features of queries and keys are turned by an angle that grows with the position."""

    def rotated_width(self, width: int) -> int:
        """r: the leading features that are turned."""
        return rotated_width(width, self.config.rotary_fraction)

    def base(self) -> float:
        return self.config.rotary_base

    def exponents(self, rotated: int) -> Array:
        """2i / r for pair i."""
        pairs: Array = np.arange(rotated // 2)
        exponents: Array = 2.0 * pairs / rotated
        return exponents

    def frequencies(self, rotated: int) -> Array:
        """(r / 2): by how much each pair turns from one position to the next."""
        return self.parts.rotary_scaling.scaled(self.unscaled(rotated))

    def unscaled(self, rotated: int) -> Array:
        """The same without a rule that slows them down."""
        frequencies: Array = self.base() ** -self.exponents(rotated)
        return frequencies

    def angles(self, positions: Array, rotated: int) -> Array:
        """(B, T, r / 2)."""
        angles: Array = np.asarray(positions, np.float64)[..., None] * self.frequencies(rotated)
        return angles

    def pairs(self, x: Var, rotated: int) -> tuple[Var, Var]:
        """The first and the second feature of every pair, each (..., T, r / 2)."""
        if self.config.rotary_pairing == "interleaved":
            return ops.index(x, (..., slice(0, rotated, 2))), ops.index(x, (..., slice(1, rotated, 2)))
        half = rotated // 2
        return ops.columns(x, 0, half), ops.columns(x, half, rotated)

    def joined(self, first: Var, second: Var) -> Var:
        """The inverse of `pairs`."""
        if self.config.rotary_pairing == "interleaved":
            *leading, half = first.shape
            return ops.reshape(ops.stack([first, second], axis=-1), (*leading, 2 * half))
        return ops.concat([first, second])

    def turned(self, first: Var, second: Var, cos: Var, sin: Var) -> tuple[Var, Var]:
        """(a, b) to (a cos - b sin, b cos + a sin)."""
        return (
            ops.sub(ops.mul(first, cos), ops.mul(second, sin)),
            ops.add(ops.mul(second, cos), ops.mul(first, sin)),
        )

    def rotate(self, x: Var, where: Where) -> Var:
        if where.place == "cross":
            return x  # the memory has positions of its own
        return self.rotate_at(x, where.queries(x.shape[-2]))

    def rotate_at(self, x: Var, positions: Array) -> Var:
        """x (..., T, d) at positions (B, T)."""
        rotated = self.rotated_width(x.shape[-1])
        cos, sin = self.cos_and_sin(self.for_heads(self.angles(positions, rotated), x.ndim), x.eps)
        turned = self.joined(*self.turned(*self.pairs(x, rotated), cos, sin))
        rest = x.shape[-1] - rotated
        return ops.concat([turned, ops.columns(x, rotated, x.shape[-1])]) if rest else turned

    def for_heads(self, angles: Array, axes: int) -> Array:
        """(B, T, r / 2), with an axis for heads where x has one."""
        return angles if axes == 3 else angles[:, None]

    def cos_and_sin(self, angles: Array, eps: float) -> tuple[Var, Var]:
        """With the variance of a table made in float32 or better.

        A cosine is rounded once (eps). Its argument is the product of a position and a frequency that was
        rounded before, the same way at every position: that error is not random. 4 roundings of the angle
        cover it: against Hugging Face's float32 tables 2 left a worst error of 0.65 of the bound at position
        32,000, twice what other formulas reach.
        """
        angles = rounded(angles)  # far from position 0 gradients are off by as much as the angle
        scaling = self.parts.rotary_scaling
        roundings = 4 + scaling.roundings(self.unscaled(2 * angles.shape[-1]))
        variance = (eps + roundings * min(eps, 2.0**-24) * np.abs(angles)) ** 2 if eps else None
        cos, sin = Var(np.cos(angles), variance, eps), Var(np.sin(angles), variance, eps)
        gain = scaling.gain()
        return (cos, sin) if gain == 1 else (ops.scale(cos, gain), ops.scale(sin, gain))


class PairByPair(Rotary):
    """The oracle's: a list says where the features of each pair stand, with no stack and no reshape."""

    def places(self, rotated: int) -> tuple[list[int], list[int]]:
        """The first and the second feature of pair i."""
        half = rotated // 2
        if self.config.rotary_pairing == "interleaved":
            return [2 * i for i in range(half)], [2 * i + 1 for i in range(half)]
        return list(range(half)), [i + half for i in range(half)]

    def pairs(self, x: Var, rotated: int) -> tuple[Var, Var]:
        firsts, seconds = self.places(rotated)
        return ops.index(x, (..., firsts)), ops.index(x, (..., seconds))

    def joined(self, first: Var, second: Var) -> Var:
        firsts, seconds = self.places(2 * first.shape[-1])
        back = np.argsort(firsts + seconds).tolist()
        return ops.index(ops.concat([first, second]), (..., back))


class Alibi(Positions):
    """A bias of minus the distance, times a slope that differs from head to head."""

    def slopes(self, heads: int) -> Array:
        """(H): powers of 2^(-8/n) for n heads, a power of two; the others from the sequence of 2n heads."""
        n = 2 ** math.floor(math.log2(heads))
        first = 2.0 ** (-8.0 * np.arange(1, n + 1) / n)
        between = 2.0 ** (-4.0 * (2 * np.arange(heads - n) + 1) / n)
        return np.concatenate([first, between])

    def distances(self, queries: Array, keys: Array) -> Array:
        """(B, T, S): how far each key lies from each query."""
        distances: Array = np.abs(queries[:, :, None] - keys[:, None, :]).astype(np.float64)
        return distances

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        if where.place == "cross":
            return None
        distances = self.distances(where.queries(T), where.keys(T, S))
        slopes = self.slopes(self.config.num_heads)[:, None, None, None]
        eps, reach = tracks_error(*p.values.values()), slopes * self.reach(where, T, S)
        return Var(rounded(-slopes * distances, reach), (eps * reach) ** 2 if eps else None, eps)

    def reach(self, where: Where, T: int, S: int) -> Array:
        """(B, 1, S): how large a number the distance may be rounded as.

        Where it is causal, slope times the key's position is as good a bias (spec/conventions.md), and is
        rounded at its own size. Measured: in float32, with positions up to 2000, such a model was off by 4.0
        times the bound that the distances alone give.
        """
        keys = np.abs(where.keys(T, S))[:, None, :].astype(np.float64)
        return keys if where.causal else np.zeros_like(keys)


class Relative(Positions):
    """A learned number for each head and each bucket of distances, shared by the layers of a stack."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        """Of key minus query positions, in whole numbers, so that no logarithm is rounded."""
        return relative_buckets(
            offsets, self.config.relative_buckets, self.config.relative_distance, causal=causal
        )

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        if where.place == "cross":
            return None
        table = p["relative.weight"] if where.table is None else where.table
        offsets = where.keys(T, S)[:, None, :] - where.queries(T)[:, :, None]
        return self.looked_up(table, self.buckets(offsets, where.causal))

    def looked_up(self, table: Var, buckets: Array) -> Var:
        """(H, B, T, S) of buckets (B, T, S)."""
        return ops.swap(ops.swap(ops.swap(ops.take(table, buckets), -1, -2), -2, -3), 0, 1)


def relative_buckets(offsets: Array, buckets: int, distance: int, *, causal: bool) -> Array:
    """The bucket of each offset; half the buckets are for keys behind the query unless it is causal.

    Distances below half the buckets of a side have one each. Beyond, bucket m + j begins at
    m (distance / m)^(j / k), with m exact ones and k others: in whole numbers, n^k m^j >= distance^j m^k.
    """
    side = buckets if causal else buckets // 2
    m = side // 2
    k = side - m
    far = np.maximum(-offsets, 0) if causal else np.abs(offsets)
    limits = [_beginning(j, m, k, distance) for j in range(1, k)]
    found = np.where(far < m, far, m + np.searchsorted(np.array(limits, np.int64), far, side="right"))
    result: Array = found + (0 if causal else side * (offsets > 0))
    return result.astype(np.int64)


def _beginning(j: int, m: int, k: int, distance: int) -> int:
    """The smallest n with n^k m^j >= distance^j m^k, in exact integers."""
    n = max(m, int(m * (distance / m) ** (j / k)) - 2)
    while n**k * m**j < distance**j * m**k:
        n += 1
    return n


POSITIONS: Mapping[str, type[Part]] = {
    "sinusoidal": Sinusoids,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": Alibi,
    "relative": Relative,
    "none": Positions,
}


@formula("rotary")
def _rotary(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.rotary.rotate_at(inputs["x"], inputs["positions"])}


@formula("relative_bias")
def _relative_bias(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    offsets = inputs["key_positions"][:, None, :] - inputs["positions"][:, :, None]
    buckets = parts.relative.buckets(offsets, bool(inputs.get("causal", False)))
    return {"output": ops.swap(parts.relative.looked_up(p["weight"], buckets), 0, 1)}


@function("alibi_slopes")
def _alibi_slopes(parts: Parts, num_heads: int) -> Array:
    return parts.alibi.slopes(num_heads)


@function("relative_buckets")
def _relative_buckets(
    parts: Parts, offsets: Array, buckets: int, distance: int, causal: bool = False
) -> Array:
    wanted = parts.but(relative_buckets=int(buckets), relative_distance=int(distance))
    return wanted.relative.buckets(np.asarray(offsets), bool(causal))
