"""One more token for every row, written so that inductor makes its own loops where libraries are slow.

Attention of one query is two sums over the cache, which inductor fuses with mask and softmax. What is done
with linear maps is in few_rows.py.

Shapes: B rows, H heads, L capacity, S source length, D width, d = D / H, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attest_impls.eager.model import DecoderLayer, Transformer

from ..decoding import Pairs, embedded_and_visible
from ..fused import FusedAttention
from .few_rows import mapped, stored


def read_one(
    model: Transformer,
    tokens: Tensor,
    position: Tensor,
    source_seen: Tensor,
    target_seen: Tensor,
    past: Pairs,
    memory: Pairs,
) -> Tensor:
    """Logits (B, 1, V) after tokens (B, 1) that stand at `position`; the caches are written in place."""
    x, allowed = embedded_and_visible(model, tokens, position, target_seen)
    for layer, own, theirs in zip(model.decoder.layers(), past, memory):
        x = _layer(layer, x, position, allowed[:, :, 0], own, source_seen[:, :, 0], theirs)
    return mapped(model.decoder.norm(x), model.projection.weight, model.projection.bias)


def _layer(
    layer: DecoderLayer,
    x: Tensor,
    position: Tensor,
    allowed: Tensor,
    own: tuple[Tensor, Tensor],
    source_seen: Tensor,
    theirs: tuple[Tensor, Tensor],
) -> Tensor:
    def read_past(y: Tensor) -> Tensor:
        q, k, v = (_heads(layer.self_attention, part) for part in _project(layer.self_attention, y, 3))
        own[0].index_copy_(2, position, k.unsqueeze(2))
        own[1].index_copy_(2, position, v.unsqueeze(2))
        return _mixed(layer.self_attention, q, *own, allowed)

    def read_memory(y: Tensor) -> Tensor:
        (q,) = _project(layer.cross_attention, y, 1)
        return _mixed(layer.cross_attention, _heads(layer.cross_attention, q), *theirs, source_seen)

    def feed_forward(y: Tensor) -> Tensor:
        part = layer.feed_forward
        inner = part.activation(mapped(y, part.inner.weight, part.inner.bias))
        return mapped(inner, part.outer.weight, part.outer.bias)

    x = layer.join(x, layer.norm0, read_past)
    x = layer.join(x, layer.norm1, read_memory)
    return layer.join(x, layer.norm2, feed_forward)


def _project(attention: FusedAttention, x: Tensor, parts: int) -> tuple[Tensor, ...]:
    """Query, or query, key and value (B, 1, D)."""
    rows = slice(0, parts * attention.d_model)
    bias = None if attention.bias is None else attention.bias[rows]
    return mapped(x, attention.weight[rows], bias).chunk(parts, -1)


def _heads(attention: FusedAttention, x: Tensor) -> Tensor:
    return stored(x[:, 0]).unflatten(-1, (attention.num_heads, -1))  # (B, H, d)


def _mixed(attention: FusedAttention, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """Attention of one query (B, H, d) per row to clean keys and values, as two sums; then the output map."""
    scores = (q.unsqueeze(2) * k).sum(-1) / math.sqrt(q.shape[-1])  # (B, H, L)
    lowest = torch.finfo(scores.dtype).min  # finite: a row whose source is all padding gets zeros, not nan
    weights = torch.where(allowed, torch.where(allowed, scores, lowest).softmax(-1), 0.0)
    heads = (weights.unsqueeze(-1) * v).sum(2)  # (B, H, d)
    return mapped(heads.flatten(1).unsqueeze(1), attention.output.weight, attention.output.bias)
