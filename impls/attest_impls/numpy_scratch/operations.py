"""The operations below the layers of a stack: arguments checked, then the layer's forward and backward.

Shapes: B batch, H heads, T queries, S keys, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TypeVar

from attest.contract import Array, Arrays, Config

from . import arguments
from .attention import DotProductAttention
from .component import Component, Cotangent, Outputs
from .embedding import Embedding, InputEmbedding
from .feed_forward import FeedForward
from .layers import Cache, DType, Map, Random
from .loss import CrossEntropy
from .masks import both, causal_mask
from .multi_head import MultiHeadAttention, Projections
from .norm import LayerNorm, RMSNorm

M = TypeVar("M", bound=Map)


class AttentionOperation(Component[DotProductAttention]):
    """softmax(q k^T / sqrt(d)) v for q, k, v (..., T or S, d)."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__(DotProductAttention(), dtype)

    def run(
        self,
        rng: Random | None,
        *,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        causal: bool = False,
    ) -> Outputs:
        q, k, v = (arguments.real_array(n, x, self.dtype) for n, x in (("q", q), ("k", k), ("v", v)))
        check_attention(q, k, v)
        T, S = q.shape[-2], k.shape[-2]
        if mask is not None:
            mask = arguments.broadcast_mask(mask, (*q.shape[:-1], S))
        visible = both(mask, causal_mask(T, S) if causal else None)
        output, weights, cache = self.layer.forward(q, k, v, visible)
        return {"output": output, "weights": weights}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        dq, dk, dv = self.layer.backward(cotangent("output"), cache, cotangent("weights"))
        return {"q": dq, "k": dk, "v": dv}


def check_attention(q: Array, k: Array, v: Array) -> None:
    """Queries, keys and values that belong together; nothing is broadcast in silence."""
    need = arguments.require
    for name, x in (("q", q), ("k", k), ("v", v)):
        need(x.ndim >= 2, f"{name}.shape", x.shape, "has fewer than two axes", "give (..., T, d)")
        alike = x.shape[:-2] == q.shape[:-2]
        need(alike, f"{name}.shape", x.shape, f"does not lead with {q.shape[:-2]} as q does", "expand it")
    need(q.shape[-1] > 0, "q.shape", q.shape, "has no features", "give a width of at least 1")
    need(k.shape[-1] == q.shape[-1], "k.shape", k.shape, f"is not of width {q.shape[-1]}", "match them")
    need(v.shape[-2] == k.shape[-2], "v.shape", v.shape, f"is not of length {k.shape[-2]}", "match them")
    need(k.shape[-2] > 0, "k.shape", k.shape, "has no keys", "give at least one")


class QkvProjection(Component[Projections]):
    """q, k and v (B, T, D) from one x."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.positive_sizes(config, "d_model")
        super().__init__(Projections(config, dtype, rng), dtype)
        self.width = config.d_model

    def run(self, rng: Random | None, *, x: Array) -> Outputs:
        x = arguments.real_array("x", x, self.dtype, rank=3, width=self.width)
        (q, k, v), cache = self.layer.project(x, x)
        return {"q": q, "k": k, "v": v}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        dq, dk, dv = cotangent("q"), cotangent("k"), cotangent("v")
        dquery, dkey_value = self.layer.project_backward(dq, dk, dv, cache)
        return {"x": dquery + dkey_value}


class MultiHeadOperation(Component[MultiHeadAttention]):
    """query (B, T, D) attends to key_value (B, S, D)."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.heads(config)
        arguments.rate("dropout", config.dropout)
        super().__init__(MultiHeadAttention(config, dtype, rng), dtype)
        self.width = config.d_model

    def run(
        self, rng: Random | None, *, query: Array, key_value: Array, mask: Array | None = None
    ) -> Outputs:
        query = arguments.real_array("query", query, self.dtype, rank=3, width=self.width)
        key_value = arguments.keys("key_value", key_value, self.dtype, self.width, len(query))
        mask = arguments.batch_mask("mask", mask, len(query), query.shape[1], key_value.shape[1])
        output, weights, cache = self.layer.forward(query, key_value, mask)
        return {"output": output, "weights": weights}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        dquery, dkey_value = self.layer.backward(cotangent("output"), cache, cotangent("weights"))
        return {"query": dquery, "key_value": dkey_value}


class MapOperation(Component[M]):
    """x (B, T, D) to one output (B, T, ...), by a layer that takes x alone. Without a width, D is free."""

    def __init__(self, layer: M, width: int | None, dtype: DType) -> None:
        super().__init__(layer, dtype)
        self.width = width

    def run(self, rng: Random | None, *, x: Array) -> Outputs:
        x = arguments.real_array("x", x, self.dtype, rank=3, width=self.width)
        output, cache = self.layer.forward(x)
        return {"output": output}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        return {"x": self.layer.backward(cotangent("output"), cache)}


def feed_forward(config: Config, dtype: DType, rng: Random) -> MapOperation[FeedForward]:
    arguments.feed_forward(config)
    return MapOperation(FeedForward(config, dtype, rng), config.d_model, dtype)


def layer_norm(config: Config, dtype: DType, rng: Random) -> MapOperation[LayerNorm]:
    arguments.layer_norm(config)
    return MapOperation(LayerNorm(config.d_model, config.norm_eps, dtype), config.d_model, dtype)


def rms_norm(config: Config, dtype: DType, rng: Random) -> MapOperation[RMSNorm]:
    arguments.layer_norm(config)
    return MapOperation(RMSNorm(config.d_model, config.norm_eps, dtype), config.d_model, dtype)


class TokenEmbedding(Component[Embedding]):
    """ids (B, T) to their rows, not scaled."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.positive_sizes(config, "d_model")
        arguments.special_ids(config, "source_vocab", ("pad_id",))
        super().__init__(Embedding(config.source_vocab, config, dtype, rng), dtype)
        self.vocab = config.source_vocab

    def run(self, rng: Random | None, *, ids: Array) -> Outputs:
        output, cache = self.layer.look_up(arguments.id_array("ids", ids, self.vocab))
        return {"output": output}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        self.layer.look_up_backward(cotangent("output"), cache)
        return {}


class InputEmbeddingOperation(Component[InputEmbedding]):
    """ids (B, T) to dropout(scaled rows + positions)."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.input_embedding(config, "source_vocab", ("pad_id",))
        super().__init__(InputEmbedding(config.source_vocab, config, dtype, rng), dtype)
        self.vocab = config.source_vocab

    def buffers(self) -> Arrays:
        return {"positions": self.layer.positions.copy()}

    def run(self, rng: Random | None, *, ids: Array) -> Outputs:
        ids = arguments.id_array("ids", ids, self.vocab)
        arguments.length_within("ids", ids.shape[1], len(self.layer.positions))
        output, cache = self.layer.forward(ids, rng)
        return {"output": output}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        self.layer.backward(cotangent("output"), cache)
        return {}


class LossOperation(Component[CrossEntropy]):
    """Cross-entropy of logits (B, T, V) and labels (B, T); labels that are padding do not count."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.rate("label_smoothing", config.label_smoothing)
        super().__init__(CrossEntropy(config.pad_id, config.label_smoothing), dtype)

    def run(self, rng: Random | None, *, logits: Array, labels: Array) -> Outputs:
        logits = arguments.real_array("logits", logits, self.dtype, rank=3)
        arguments.require(logits.shape[-1] > 0, "logits.shape", logits.shape, "has no classes", "give some")
        loss, cache = self.layer.forward(logits, arguments.labels(labels, logits))
        return {"loss": loss}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        return {"logits": self.layer.backward(cotangent("loss"), cache)}
