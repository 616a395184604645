"""The operations of attention and its parts: arguments checked, then the layer's forward and backward.

Shapes: B batch, H heads, T queries, S keys, D width.
"""

from . import arguments
from .attention import attention_backward, attention_forward, both, causal_mask
from .component import Component
from .layers import Layer
from .multi_head import MultiHeadAttention, Projections


class Attention(Component):
    """softmax(q k^T / sqrt(d)) v for q, k, v (..., T or S, d)."""

    def __init__(self, config, dtype, rng):
        super().__init__(Layer(), dtype)

    def run(self, rng, *, q, k, v, mask=None, causal=False):
        q, k, v = (arguments.real_array(n, x, self.dtype) for n, x in (("q", q), ("k", k), ("v", v)))
        self._check(q, k, v)
        T, S = q.shape[-2], k.shape[-2]
        if mask is not None:
            mask = arguments.broadcast_mask(mask, (*q.shape[:-1], S))
        visible = both(mask, causal_mask(T, S) if causal else None)
        output, weights, cache = attention_forward(q, k, v, visible)
        return {"output": output, "weights": weights}, cache

    def back(self, cotangent, cache):
        dq, dk, dv = attention_backward(cotangent("output"), cotangent("weights"), cache)
        return {"q": dq, "k": dk, "v": dv}

    def _check(self, q, k, v):
        need = arguments.require
        for name, x in (("q", q), ("k", k), ("v", v)):
            need(x.ndim >= 2, f"{name}.shape", x.shape, "has fewer than two axes", "give (..., T, d)")
            alike = x.shape[:-2] == q.shape[:-2]
            need(alike, f"{name}.shape", x.shape, f"does not lead with {q.shape[:-2]} as q does", "expand it")
        need(q.shape[-1] > 0, "q.shape", q.shape, "has no features", "give a width of at least 1")
        need(k.shape[-1] == q.shape[-1], "k.shape", k.shape, f"is not of width {q.shape[-1]}", "match them")
        need(
            v.shape[-2] == k.shape[-2],
            "v.shape",
            v.shape,
            f"is not of length {k.shape[-2]}",
            "match them",
        )
        need(k.shape[-2] > 0, "k.shape", k.shape, "has no keys", "give at least one")


class QkvProjection(Component):
    """q, k and v (B, T, D) from one x."""

    def __init__(self, config, dtype, rng):
        arguments.positive_sizes(config, "d_model")
        super().__init__(Projections(config, dtype, rng), dtype)
        self.width = config.d_model

    def run(self, rng, *, x):
        x = arguments.real_array("x", x, self.dtype, rank=3, width=self.width)
        (q, k, v), cache = self.layer.forward(x, x)
        return {"q": q, "k": k, "v": v}, cache

    def back(self, cotangent, cache):
        return {"x": sum(self.layer.backward(cotangent("q"), cotangent("k"), cotangent("v"), cache))}


class MultiHead(Component):
    """query (B, T, D) attends to key_value (B, S, D)."""

    def __init__(self, config, dtype, rng):
        arguments.heads(config)
        super().__init__(MultiHeadAttention(config, dtype, rng), dtype)
        self.width = config.d_model

    def run(self, rng, *, query, key_value, mask=None):
        query = arguments.real_array("query", query, self.dtype, rank=3, width=self.width)
        key_value = keys("key_value", key_value, self.dtype, self.width, len(query))
        mask = arguments.batch_mask("mask", mask, len(query), query.shape[1], key_value.shape[1])
        output, weights, cache = self.layer.forward(query, key_value, mask)
        return {"output": output, "weights": weights}, cache

    def back(self, cotangent, cache):
        dquery, dkey_value = self.layer.backward(cotangent("output"), cache, cotangent("weights"))
        return {"query": dquery, "key_value": dkey_value}


def keys(name, value, dtype, width, batch):
    """What is attended to: (B, S, D) of the queries' batch, with at least one key."""
    array = arguments.real_array(name, value, dtype, rank=3, width=width)
    arguments.same_batch(name, array, batch)
    arguments.require(array.shape[1] > 0, f"{name}.shape", array.shape, "has no keys", "give at least one")
    return array
