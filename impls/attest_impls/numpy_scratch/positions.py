"""Positions of today: learned rows, rotary pairs, and biases on the scores (ALiBi, the buckets of T5).

Shapes: B batch, H heads, T queries, S keys, d width of a head, r features of it that are turned.
"""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Array, Config

from .arguments import is_integer, require
from .layers import Cache, DType, Layer, Random
from .rotary_scaling import scaled


class Rotary(Layer):
    """Each pair of features is a point in the plane, turned by position * base^(-2i / r).

    The product of two turned vectors depends on the difference of their positions alone: turning both by one
    more position turns the plane, and the angle between them stays. `halves` pairs feature i with i + r/2,
    `interleaved` 2i with 2i + 1; only the first r features of a head are turned.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.base, self.fraction = config.rotary_base, config.rotary_fraction
        self.interleaved = config.rotary_pairing == "interleaved"
        self.config = config

    def turned(self, width: int) -> int:
        """r, which must be even: every feature has a partner."""
        r = round(width * self.fraction)
        even = r > 0 and r % 2 == 0 and math.isclose(r, width * self.fraction)
        rule = f"of a head of width {width} is no even number of features"
        require(even, "rotary_fraction", self.fraction, rule, "choose another width or fraction")
        return r

    def cos_sin(self, positions: Array, width: int, dtype: DType) -> tuple[Array, Array]:
        """(B, 1, T, r / 2) each. Angles are made in float64: in float32 a far position loses its fraction."""
        r = self.turned(width)
        frequencies, gain = scaled(self.base ** (-np.arange(0, r, 2) / r), self.config)  # (r / 2,)
        angles = (positions[..., None] * frequencies)[:, None]  # (B, 1, T, r / 2)
        return (gain * np.cos(angles)).astype(dtype), (gain * np.sin(angles)).astype(dtype)

    def pairs(self, x: Array, r: int) -> tuple[Array, Array]:
        """The first and the second of every pair, as views (..., T, r / 2)."""
        if self.interleaved:
            return x[..., 0:r:2], x[..., 1:r:2]
        return x[..., : r // 2], x[..., r // 2 : r]

    def forward(self, x: Array, positions: Array) -> tuple[Array, Cache]:
        """x (B, H, T, d) at positions (B or 1, T)."""
        cos, sin = self.cos_sin(positions, x.shape[-1], x.dtype)
        return self.rotated(x, cos, sin), (cos, sin)

    def backward(self, dy: Array, cache: Cache) -> Array:
        """A rotation is linear, and its transpose is the rotation back: the same with -sin. A gain stays."""
        cos, sin = cache
        return self.rotated(dy, cos, -sin)

    def rotated(self, x: Array, cos: Array, sin: Array) -> Array:
        """(a, b) to (a cos - b sin, b cos + a sin); what lies beyond r passes as it is."""
        y = x.copy()
        a, b = self.pairs(x, 2 * cos.shape[-1])
        first, second = self.pairs(y, 2 * cos.shape[-1])
        first[...] = a * cos - b * sin
        second[...] = b * cos + a * sin
        return y


def alibi_slopes(num_heads: int) -> Array:
    """(H,): 2^(-8 (i + 1) / n) for the largest power of two n; the rest lie between those of 2n heads."""
    require(is_integer(num_heads) and num_heads > 0, "num_heads", num_heads, "is no number", "give 1 or more")
    n = 1 << (int(num_heads).bit_length() - 1)
    slopes = 2.0 ** (-8 * np.arange(1, n + 1) / n)
    between = 2.0 ** (-4 * (2 * np.arange(num_heads - n) + 1) / n)
    return np.concatenate([slopes, between])


def alibi_bias(num_heads: int, positions: Array, key_positions: Array, dtype: DType) -> Array:
    """(B or 1, H, T, S): minus the slope times the distance."""
    distance = np.abs(positions[:, :, None] - key_positions[:, None, :])  # (B, T, S)
    bias: Array = -alibi_slopes(num_heads)[:, None, None] * distance[:, None]  # (B, H, T, S)
    return bias.astype(dtype)


def relative_buckets(offsets: Array, buckets: int, distance: int, causal: bool = False) -> Array:
    """The bucket of each offset, key minus query position: one for each near distance, then in logarithms.

    Both directions share the buckets half and half; a causal model needs one direction. The border of bucket
    m + j is at m (distance / m)^(j / k). It is found in whole numbers, n^k m^j >= distance^j m^k, because a
    rounded logarithm would put a distance that lies on the border into either bucket.
    """
    offsets = np.asarray(offsets)
    side = buckets if causal else buckets // 2
    m = side // 2
    k = side - m
    rule, remedy = "is too small for its buckets", "give a distance above half the buckets of a side"
    require(m > 0 and distance > m, "distance", distance, rule, remedy)
    far = np.maximum(-offsets, 0) if causal else np.abs(offsets)
    borders = [_border(j, m, k, distance) for j in range(1, k)]
    found = np.where(far < m, far, m + np.searchsorted(borders, far, side="right"))
    return np.asarray(found + (0 if causal else side * (offsets > 0)), np.int64)


def _border(j: int, m: int, k: int, distance: int) -> int:
    """The smallest n with n^k m^j >= distance^j m^k, from a guess that is a little too small."""
    n: int = max(m, math.floor(m * (distance / m) ** (j / k)) - 2)
    while n**k * m**j < distance**j * m**k:
        n += 1
    return n


class RelativeBias(Layer):
    """A number for each bucket and head, added to the scores; one table serves all layers of a stack."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        self.buckets, self.distance = config.relative_buckets, config.relative_distance
        self.params["weight"] = rng.normal(0, 0.1, (self.buckets, config.num_heads)).astype(dtype)

    def forward(self, positions: Array, key_positions: Array, causal: bool) -> tuple[Array, Cache]:
        """(B or 1, H, T, S)."""
        offsets = key_positions[:, None, :] - positions[:, :, None]  # (B, T, S)
        buckets = relative_buckets(offsets, self.buckets, self.distance, causal)
        return self.params["weight"][buckets].transpose(0, 3, 1, 2), buckets

    def backward(self, dbias: Array, cache: Cache) -> None:
        """Every use of a bucket adds to its number: over pairs, rows, and, layer by layer, the stack."""
        buckets = cache  # (B or 1, T, S)
        if len(buckets) == 1:
            dbias = dbias.sum(axis=0, keepdims=True)  # one bias served all rows
        np.add.at(self.grads["weight"], buckets, dbias.transpose(0, 2, 3, 1))


class LearnedPositions(Layer):
    """A row for each of max_len positions."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        shape = (config.max_len, config.d_model)
        self.params["weight"] = rng.normal(0, config.d_model**-0.5, shape).astype(dtype)

    def forward(self, positions: Array) -> tuple[Array, Cache]:
        """positions (B or 1, T) to rows (B or 1, T, D)."""
        return self.params["weight"][positions], positions

    def backward(self, dy: Array, cache: Cache) -> None:
        """Each use of a row adds: `grads[positions] += dy` would keep one of them."""
        positions = np.broadcast_to(cache, dy.shape[:2])
        np.add.at(self.grads["weight"], positions, dy)
