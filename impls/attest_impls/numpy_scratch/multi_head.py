"""Multi-head attention (section 3.2.2): project, attend in every head at once, concatenate, mix.

Shapes: B batch, T queries, S keys, D width, H heads, d = D / H.
"""

from .attention import attention_backward, attention_forward
from .layers import Layer, Linear


class Projections(Layer):
    """Three separate linear maps: queries from one input, keys and values from another."""

    def __init__(self, config, dtype, rng):
        super().__init__()
        for name in ("query", "key", "value"):
            self.children[name] = Linear(config.d_model, config.d_model, config.bias, dtype, rng)

    def forward(self, query, key_value):
        q, cache_q = self.children["query"].forward(query)
        k, cache_k = self.children["key"].forward(key_value)
        v, cache_v = self.children["value"].forward(key_value)
        return (q, k, v), (cache_q, cache_k, cache_v)

    def backward(self, dq, dk, dv, cache):
        cache_q, cache_k, cache_v = cache
        dquery = self.children["query"].backward(dq, cache_q)
        dkey_value = self.children["key"].backward(dk, cache_k)
        return dquery, dkey_value + self.children["value"].backward(dv, cache_v)


def split(x, heads):
    """(B, T, D) -> (B, H, T, d): head h holds features h d to (h + 1) d."""
    B, T, D = x.shape
    return x.reshape(B, T, heads, D // heads).swapaxes(1, 2)


def merge(x):
    """(B, H, T, d) -> (B, T, D), the inverse of split; each is the gradient of the other."""
    B, H, T, d = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * d)


class MultiHeadAttention(Projections):
    """Concat(head_1, ..., head_H) W_O, with head_h = attention(Q W_Q,h, K W_K,h, V W_V,h)."""

    def __init__(self, config, dtype, rng):
        super().__init__(config, dtype, rng)
        self.heads = config.num_heads
        self.children["output"] = Linear(config.d_model, config.d_model, config.bias, dtype, rng)

    def forward(self, query, key_value, visible):
        """`visible` is None or (B or 1, 1, T or 1, S), or (T, S); it reaches every head."""
        projected, cache_in = super().forward(query, key_value)
        q, k, v = (split(x, self.heads) for x in projected)
        heads, weights, cache = attention_forward(q, k, v, visible)  # (B, H, T, d), (B, H, T, S)
        output, cache_out = self.children["output"].forward(merge(heads))
        return output, weights, (cache_in, cache, cache_out)

    def backward(self, doutput, cache, dweights=None):
        """Gradients of `query` and `key_value`; in self-attention the caller adds them."""
        cache_in, cache, cache_out = cache
        dheads = split(self.children["output"].backward(doutput, cache_out), self.heads)
        dq, dk, dv = attention_backward(dheads, dweights, cache)
        return super().backward(merge(dq), merge(dk), merge(dv), cache_in)
