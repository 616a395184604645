"""Attention of a sequence to itself with the heads of today: grouped, of any width, windowed, placed.

Shapes: B batch, T queries, S keys, D width, H heads, G key heads, d width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attest.contract import Array, Config

from .attention import DotProductAttention
from .layers import Cache, DType, Layer, Linear, Random
from .masks import Mask, both, causal_mask
from .multi_head import merge
from .norm import RMSNorm
from .positions import RelativeBias, Rotary, alibi_bias


@dataclass(frozen=True)
class Place:
    """Where queries and keys stand, and which keys may be seen."""

    positions: Array  # (B or 1, T)
    key_positions: Array  # (B or 1, S)
    visible: Mask  # (T, S) or (B or 1, 1, T or 1, S)
    causal: bool


def placed(config: Config, positions: Array, key_positions: Array, visible: Mask, causal: bool) -> Place:
    """With the triangle of a causal model, and the window: itself and window - 1 before, or on both sides."""
    if causal:
        visible = both(visible, causal_mask(positions.shape[1], key_positions.shape[1]))
    if config.window is not None:
        before = positions[:, :, None] - key_positions[:, None, :]  # (B, T, S)
        within = np.abs(before) < config.window
        visible = both(
            visible, (within if config.window_sides == "both" else within & (before >= 0))[:, None]
        )
    return Place(positions, key_positions, visible, causal)


def in_heads(x: Array, width: int) -> Array:
    """(B, T, heads * d) -> (B, heads, T, d)."""
    B, T, features = x.shape
    return x.reshape(B, T, features // width, width).swapaxes(1, 2)


class Sinks(Layer):
    """A score for each head that stands beside those of the keys and has no value."""

    def __init__(self, config: Config, dtype: DType) -> None:
        super().__init__()
        self.params["weight"] = np.zeros(config.num_heads, dtype)


class SelfAttention(Layer):
    """H query heads read G key heads, H / G consecutive ones each. `relative` is the stack's, if any."""

    def __init__(self, config: Config, dtype: DType, rng: Random, relative: RelativeBias | None) -> None:
        super().__init__()
        self.config, self.relative, self.dtype = config, relative, dtype
        D, d, H, G = config.d_model, config.d_head, config.num_heads, config.kv_heads
        bias = config.bias if config.qkv_bias is None else config.qkv_bias
        self.query = self.child("query", Linear(D, H * d, bias, dtype, rng))
        self.key = self.child("key", Linear(D, G * d, bias, dtype, rng))
        self.value = self.child("value", Linear(D, G * d, bias, dtype, rng))
        self.output = self.child("output", Linear(H * d, D, config.bias, dtype, rng))
        self.norms: list[RMSNorm] = []
        if config.qk_norm:
            norms = {n: RMSNorm(d, config.norm_eps, dtype) for n in ("query_norm", "key_norm")}
            self.norms = [self.child(name, norm) for name, norm in norms.items()]
        self.rotary = Rotary(config) if config.positions == "rotary" else None
        self.sinks = self.child("sinks", Sinks(config, dtype)) if config.sinks else None
        self.attention = DotProductAttention(config.attention_scale, config.score_cap)

    def forward(self, x: Array, place: Place) -> tuple[Array, Array, Cache]:
        """The output and the weights."""
        k, v, cache_kv = self.keys_values(x, place.key_positions)
        output, weights, cache_q = self.read(x, k, v, place)
        return output, weights, (cache_kv, cache_q)

    def backward(self, doutput: Array, cache: Cache, dweights: Array | None = None) -> Array:
        """The gradient of x, which went three ways: to queries, to keys and to values."""
        cache_kv, cache_q = cache
        dx, dk, dv = self.read_backward(doutput, cache_q, dweights)
        return dx + self.keys_values_backward(dk, dv, cache_kv)

    def keys_values(self, x: Array, positions: Array) -> tuple[Array, Array, Cache]:
        """(B, G, S, d) each, keys as attention compares them: what generation keeps."""
        k, mapped_k = self.key.forward(x)
        v, mapped_v = self.value.forward(x)
        k, turned = self.turn(in_heads(k, self.config.d_head), positions, 1)
        return k, in_heads(v, self.config.d_head), (mapped_k, mapped_v, turned)

    def keys_values_backward(self, dk: Array, dv: Array, cache: Cache) -> Array:
        mapped_k, mapped_v, turned = cache
        dx = self.key.backward(merge(self.turn_backward(dk, turned, 1)), mapped_k)  # (B, S, D)
        dx += self.value.backward(merge(dv), mapped_v)
        return dx

    def read(self, x: Array, k: Array, v: Array, place: Place) -> tuple[Array, Array, Cache]:
        """Queries of x (B, T, D) to keys and values (B, G, S, d)."""
        q, mapped = self.query.forward(x)
        q, turned = self.turn(in_heads(q, self.config.d_head), place.positions, 0)  # (B, H, T, d)
        bias, biased = self.bias(place)
        shared_k, shared_v = self.shared(k), self.shared(v)  # (B, H, S, d)
        sinks = None if self.sinks is None else self.sinks.params["weight"][:, None, None]  # (H, 1, 1)
        heads, weights, attended = self.attention.forward(q, shared_k, shared_v, place.visible, bias, sinks)
        output, joined = self.output.forward(merge(heads))  # (B, T, D)
        return output, weights, (mapped, turned, biased, attended, joined)

    def read_backward(
        self, doutput: Array, cache: Cache, dweights: Array | None
    ) -> tuple[Array, Array, Array]:
        mapped, turned, biased, attended, joined = cache
        dheads = in_heads(self.output.backward(doutput, joined), self.config.d_head)  # (B, H, T, d)
        dq, dk, dv, dbias, dsinks = self.attention.gradients(dheads, attended, dweights)
        if self.sinks is not None:
            self.sinks.grads["weight"] += dsinks.sum(axis=(0, 2, 3))  # every query of a head saw it
        if self.relative is not None:
            self.relative.backward(dbias, biased)
        dx = self.query.backward(merge(self.turn_backward(dq, turned, 0)), mapped)  # (B, T, D)
        return dx, self.gathered(dk), self.gathered(dv)

    def shared(self, x: Array) -> Array:
        """(B, G, S, d) -> (B, H, S, d): head h reads key head h // (H / G)."""
        return np.repeat(x, self.config.num_heads // x.shape[1], axis=1)

    def gathered(self, dx: Array) -> Array:
        """(B, H, S, d) -> (B, G, S, d): a key that several heads read has the sum of their gradients."""
        B, _, S, d = dx.shape
        gathered: Array = dx.reshape(B, self.config.kv_heads, -1, S, d).sum(axis=2)
        return gathered

    def turn(self, x: Array, positions: Array, which: int) -> tuple[Array, Cache]:
        """Queries (0) or keys (1) through their norm, then to their place."""
        x, normed = self.norms[which].forward(x) if self.norms else (x, None)
        x, rotated = self.rotary.forward(x, positions) if self.rotary else (x, None)
        return x, (normed, rotated)

    def turn_backward(self, dy: Array, cache: Cache, which: int) -> Array:
        normed, rotated = cache
        dy = self.rotary.backward(dy, rotated) if self.rotary else dy
        return self.norms[which].backward(dy, normed) if self.norms else dy

    def bias(self, place: Place) -> tuple[Array | None, Cache]:
        """What the positions add to the scores, (B or 1, H, T, S)."""
        where = place.positions, place.key_positions
        if self.relative is not None:
            return self.relative.forward(*where, place.causal)
        if self.config.positions == "alibi":
            return alibi_bias(self.config.num_heads, *where, self.dtype), None
        return None, None
