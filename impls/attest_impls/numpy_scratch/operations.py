"""The operations from attention to the stacks: arguments checked, then the layer's forward and backward.

Shapes: B batch, H heads, T queries, S keys, D width.
"""

from . import arguments
from .attention import attention_backward, attention_forward, both, causal_mask
from .blocks import Decoder, DecoderLayer, Encoder, EncoderLayer
from .component import Component
from .embedding import Embedding, InputEmbedding, position_table
from .layers import FeedForward, Layer, LayerNorm
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
        arguments.rate("dropout", config.dropout)
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


class Positionwise(Component):
    """x (B, T, D) to an output of its shape, by a layer that takes x alone."""

    def run(self, rng, *, x):
        x = arguments.real_array("x", x, self.dtype, rank=3, width=self.width)
        output, cache = self.layer.forward(x)
        return {"output": output}, cache

    def back(self, cotangent, cache):
        return {"x": self.layer.backward(cotangent("output"), cache)}


class FeedForwardOperation(Positionwise):
    def __init__(self, config, dtype, rng):
        arguments.feed_forward(config)
        super().__init__(FeedForward(config, dtype, rng), dtype)
        self.width = config.d_model


class LayerNormOperation(Positionwise):
    def __init__(self, config, dtype, rng):
        arguments.layer_norm(config)
        super().__init__(LayerNorm(config, dtype), dtype)
        self.width = config.d_model


class TokenEmbedding(Component):
    """ids (B, T) to their rows, not scaled."""

    def __init__(self, config, dtype, rng):
        arguments.positive_sizes(config, "d_model")
        arguments.special_ids(config, "source_vocab", ("pad_id",))
        super().__init__(Embedding(config.source_vocab, config, dtype, rng), dtype)
        self.vocab = config.source_vocab

    def run(self, rng, *, ids):
        output, cache = self.layer.forward(arguments.id_array("ids", ids, self.vocab))
        return {"output": output}, cache

    def back(self, cotangent, cache):
        self.layer.backward(cotangent("output"), cache)
        return {}


class PositionalEncoding(Component):
    """x (B, T, D) plus the first T rows of a fixed table."""

    def __init__(self, config, dtype, rng):
        arguments.positive_sizes(config, "d_model", "max_len")
        super().__init__(Layer(), dtype)
        self.table = position_table(config.max_len, config.d_model).astype(dtype)

    def buffers(self):
        return {"positions": self.table.copy()}

    def run(self, rng, *, x):
        max_len, width = self.table.shape
        x = arguments.real_array("x", x, self.dtype, rank=3, width=width)
        arguments.length_within("x", x.shape[1], max_len)
        return {"output": x + self.table[: x.shape[1]]}, None

    def back(self, cotangent, cache):
        return {"x": cotangent("output").copy()}


class InputEmbeddingOperation(Component):
    """ids (B, T) to dropout(scaled rows + positions)."""

    def __init__(self, config, dtype, rng):
        arguments.input_embedding(config, "source_vocab", ("pad_id",))
        super().__init__(InputEmbedding(config.source_vocab, config, dtype, rng), dtype)
        self.vocab = config.source_vocab

    def buffers(self):
        return {"positions": self.layer.positions.copy()}

    def run(self, rng, *, ids):
        ids = arguments.id_array("ids", ids, self.vocab)
        arguments.length_within("ids", ids.shape[1], len(self.layer.positions))
        output, cache = self.layer.forward(ids, rng)
        return {"output": output}, cache

    def back(self, cotangent, cache):
        self.layer.backward(cotangent("output"), cache)
        return {}


class EncoderOperation(Component):
    """x (B, S, D) through one encoder layer or a stack of them."""

    def __init__(self, layer, config, dtype, rng):
        arguments.block(config)
        super().__init__(layer(config, dtype, rng), dtype)
        self.width = config.d_model

    def run(self, rng, *, x, mask=None):
        x = keys("x", x, self.dtype, self.width)
        mask = arguments.batch_mask("mask", mask, len(x), x.shape[1], x.shape[1])
        output, cache = self.layer.forward(x, mask, rng)
        return {"output": output}, cache

    def back(self, cotangent, cache):
        return {"x": self.layer.backward(cotangent("output"), cache)}


class DecoderOperation(Component):
    """x (B, T, D) and memory (B, S, D) through one decoder layer or a stack of them."""

    def __init__(self, layer, config, dtype, rng):
        arguments.block(config)
        super().__init__(layer(config, dtype, rng), dtype)
        self.width = config.d_model

    def run(self, rng, *, x, memory, mask=None, memory_mask=None):
        x = keys("x", x, self.dtype, self.width)
        memory = keys("memory", memory, self.dtype, self.width, len(x))
        B, T, S = len(x), x.shape[1], memory.shape[1]
        mask = arguments.batch_mask("mask", mask, B, T, T)
        memory_mask = arguments.batch_mask("memory_mask", memory_mask, B, T, S)
        output, cache = self.layer.forward(x, memory, mask, memory_mask, rng)
        return {"output": output}, cache

    def back(self, cotangent, cache):
        dx, dmemory = self.layer.backward(cotangent("output"), cache)
        return {"x": dx, "memory": dmemory}


def encoder_layer(config, dtype, rng):
    return EncoderOperation(EncoderLayer, config, dtype, rng)


def encoder(config, dtype, rng):
    arguments.positive_sizes(config, "num_encoder_layers")
    return EncoderOperation(Encoder, config, dtype, rng)


def decoder_layer(config, dtype, rng):
    return DecoderOperation(DecoderLayer, config, dtype, rng)


def decoder(config, dtype, rng):
    arguments.positive_sizes(config, "num_decoder_layers")
    return DecoderOperation(Decoder, config, dtype, rng)


def keys(name, value, dtype, width, batch=None):
    """What is attended to: (B, S, D), of the queries' batch, with at least one key."""
    array = arguments.real_array(name, value, dtype, rank=3, width=width)
    if batch is not None:
        arguments.same_batch(name, array, batch)
    arguments.require(array.shape[1] > 0, f"{name}.shape", array.shape, "has no keys", "give at least one")
    return array
