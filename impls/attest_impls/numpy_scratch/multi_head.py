"""Multi-head attention (section 3.2.2): project, attend in every head at once, concatenate, mix.

Shapes: B batch, T queries, S keys, D width, H heads, d = D / H.
"""

from __future__ import annotations

from attest.contract import Array, Config

from .attention import DotProductAttention
from .layers import Cache, DType, Layer, Linear, Random
from .masks import Mask


class Projections(Layer):
    """Three separate linear maps: queries from one input, keys and values from another."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        D, bias = config.d_model, config.bias
        self.query = self.child("query", Linear(D, D, bias, dtype, rng))
        self.key = self.child("key", Linear(D, D, bias, dtype, rng))
        self.value = self.child("value", Linear(D, D, bias, dtype, rng))

    def project(self, query: Array, key_value: Array) -> tuple[tuple[Array, Array, Array], Cache]:
        q, cache_q = self.query.forward(query)  # (B, T, D)
        k, cache_k = self.key.forward(key_value)  # (B, S, D)
        v, cache_v = self.value.forward(key_value)  # (B, S, D)
        return (q, k, v), (cache_q, cache_k, cache_v)

    def project_backward(self, dq: Array, dk: Array, dv: Array, cache: Cache) -> tuple[Array, Array]:
        """`key_value` went two ways, so its gradient is the sum of both."""
        cache_q, cache_k, cache_v = cache
        dquery = self.query.backward(dq, cache_q)  # (B, T, D)
        dkey_value = self.key.backward(dk, cache_k)  # (B, S, D)
        dkey_value += self.value.backward(dv, cache_v)
        return dquery, dkey_value


def split(x: Array, heads: int) -> Array:
    """(B, T, D) -> (B, H, T, d): head h holds features h d to (h + 1) d."""
    B, T, D = x.shape
    return x.reshape(B, T, heads, D // heads).swapaxes(1, 2)


def merge(x: Array) -> Array:
    """(B, H, T, d) -> (B, T, D), the inverse of split; each is the gradient of the other."""
    B, H, T, d = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * d)


class MultiHeadAttention(Projections):
    """Concat(head_1, ..., head_H) W_O, with head_h = attention(Q W_Q,h, K W_K,h, V W_V,h)."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__(config, dtype, rng)
        self.heads = config.num_heads
        self.attention = DotProductAttention()
        self.output = self.child("output", Linear(config.d_model, config.d_model, config.bias, dtype, rng))

    def forward(self, query: Array, key_value: Array, visible: Mask) -> tuple[Array, Array, Cache]:
        """The output and the weights. `visible` is None, (T, S) or (B or 1, 1, T or 1, S), for every head."""
        projected, cache_in = self.project(query, key_value)
        q, k, v = (split(x, self.heads) for x in projected)  # (B, H, T or S, d)
        heads, weights, attended = self.attention.forward(q, k, v, visible)  # (B, H, T, d), (B, H, T, S)
        output, cache_out = self.output.forward(merge(heads))  # (B, T, D)
        return output, weights, (cache_in, attended, cache_out)

    def backward(self, doutput: Array, cache: Cache, dweights: Array | None = None) -> tuple[Array, Array]:
        """Gradients of `query` and `key_value`; in self-attention the caller adds them.

        Splitting and merging move numbers and compute nothing, so the gradient moves the other way.
        """
        cache_in, attended, cache_out = cache
        dheads = split(self.output.backward(doutput, cache_out), self.heads)  # (B, H, T, d)
        dq, dk, dv = self.attention.backward(dheads, attended, dweights)  # (B, H, T or S, d)
        return self.project_backward(merge(dq), merge(dk), merge(dv), cache_in)  # (B, T, D), (B, S, D)

    @staticmethod
    def weights(cache: Cache) -> Array:
        """(B, H, T, S), out of the cache of `forward`."""
        _, (_, _, _, weights, *_), _ = cache
        return weights  # type: ignore[no-any-return]

    def keys_values(self, key_value: Array) -> tuple[Array, Array]:
        """Keys and values (B, H, S, d) of every head, as generation keeps them."""
        k, _ = self.key.forward(key_value)  # (B, S, D)
        v, _ = self.value.forward(key_value)  # (B, S, D)
        return split(k, self.heads), split(v, self.heads)

    def read(self, query: Array, k: Array, v: Array, visible: Mask) -> Array:
        """The output of `forward` for keys and values that `keys_values` made before."""
        q, _ = self.query.forward(query)  # (B, T, D)
        heads, _, _ = self.attention.forward(split(q, self.heads), k, v, visible)  # (B, H, T, d)
        return self.output.forward(merge(heads))[0]  # (B, T, D)
