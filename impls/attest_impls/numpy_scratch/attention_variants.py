"""Attention in other ways: in chunks of keys, without a softmax, and between chosen blocks.

Shapes: ... leading axes, B batch, H heads, T queries, S keys, d width of q and k, e width of v.
"""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Array, Config

from . import arguments
from .attention import DotProductAttention
from .component import Component, Cotangent, Outputs
from .layers import Cache, DType, Layer, Random
from .masks import Mask, both, causal_mask, mix
from .operations import check_attention


class ChunkedAttention(Layer):
    """softmax(q k^T / sqrt(d)) v without the whole matrix of scores: keys come in chunks.

    The softmax is computed as it goes (https://arxiv.org/abs/1805.02867): the largest score so far, the sum
    of exponentials below it, and the mixed values. When a chunk has a larger score, what was collected is
    scaled down by exp(old - new).
    """

    def __init__(self, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk

    def chunks(self, S: int) -> list[slice]:
        return [slice(start, min(start + self.chunk, S)) for start in range(0, S, self.chunk)]

    def scores(self, q: Array, k: Array, visible: Array, keys: slice) -> Array:
        """(..., T, chunk): -inf where a key may not be seen."""
        scores = q @ k[..., keys, :].swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]))
        return np.where(visible[..., keys], scores, -np.inf)

    def forward(self, q: Array, k: Array, v: Array, visible: Array) -> tuple[Array, Array, Cache]:
        """The output (..., T, e) and log sum exp of the scores (..., T); -inf where nothing is seen."""
        peak = np.full((*q.shape[:-1], 1), -np.inf, q.dtype)  # (..., T, 1)
        total = np.zeros_like(peak)
        mixed = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)  # (..., T, e)
        for keys in self.chunks(k.shape[-2]):
            scores = self.scores(q, k, visible, keys)
            new = np.maximum(peak, scores.max(axis=-1, keepdims=True))
            safe = np.where(new == -np.inf, 0, new)  # -inf - (-inf) is nan
            shrink, powers = np.exp(peak - safe), np.exp(scores - safe)
            total = total * shrink + powers.sum(axis=-1, keepdims=True)
            mixed = mixed * shrink + mix(powers, visible[..., keys], v[..., keys, :])
            peak = new
        output = mixed / np.where(total == 0, 1, total)
        with np.errstate(divide="ignore"):
            log_sum_exp = (peak + np.log(total))[..., 0]  # log 0 is -inf, as it should be
        return output, log_sum_exp, (q, k, v, visible, output, log_sum_exp)

    def backward(self, doutput: Array, dlse: Array, cache: Cache) -> tuple[Array, Array, Array]:
        """Gradients of q, k and v, again chunk by chunk: weights are made anew from log sum exp.

        A score moves the output by its weight times (value - output), and log sum exp by its weight. So
        dscore = weight (doutput . v - doutput . output + dlse).
        """
        q, k, v, visible, output, log_sum_exp = cache
        dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
        scale = 1 / math.sqrt(q.shape[-1])
        shared = dlse[..., None] - (doutput * output).sum(axis=-1, keepdims=True)  # (..., T, 1)
        level = np.where(log_sum_exp == -np.inf, 0, log_sum_exp)[..., None]
        for keys in self.chunks(k.shape[-2]):
            seen = visible[..., keys]
            weights = np.exp(self.scores(q, k, visible, keys) - level)  # (..., T, chunk)
            dw = np.where(seen, doutput @ v[..., keys, :].swapaxes(-1, -2), 0)  # 0 * nan is nan
            dscores = weights * (dw + shared) * scale
            dq += mix(dscores, seen, k[..., keys, :])
            dk[..., keys, :] = dscores.swapaxes(-1, -2) @ q
            dv[..., keys, :] = weights.swapaxes(-1, -2) @ doutput
        return dq, dk, dv


class ChunkedOperation(Component[ChunkedAttention]):
    """q, k, v (..., T or S, d) to the output and log sum exp."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.positive_sizes(config, "chunk")
        super().__init__(ChunkedAttention(config.chunk), dtype)

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
        full = (*q.shape[:-1], S)
        given = None if mask is None else arguments.broadcast_mask(mask, full)
        visible = both(given, causal_mask(T, S) if causal else None)
        everywhere = np.broadcast_to(True if visible is None else visible, full)
        output, log_sum_exp, cache = self.layer.forward(q, k, v, everywhere)
        return {"output": output, "log_sum_exp": log_sum_exp}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        dq, dk, dv = self.layer.backward(cotangent("output"), cotangent("log_sum_exp"), cache)
        return {"q": dq, "k": dk, "v": dv}


class LinearAttention(Layer):
    """phi(q) (phi(k)^T v) / (phi(q) sum phi(k)), phi(x) = elu(x) + 1 (https://arxiv.org/abs/2006.16236).

    Without a softmax the products can be taken in another order, and keys need not be compared one by one.
    Here they are, because the gradient then reads like that of attention: weights = phi(q) phi(k)^T, divided
    by their sum.
    """

    def phi(self, x: Array) -> tuple[Array, Array]:
        """elu(x) + 1 and its slope: x + 1 and 1 above zero, exp(x) twice below."""
        below = np.exp(np.minimum(x, 0))
        return np.where(x > 0, x + 1, below), np.where(x > 0, 1, below).astype(x.dtype)

    def forward(self, q: Array, k: Array, v: Array, visible: Mask) -> tuple[Array, Cache]:
        feature_q, slope_q = self.phi(q)  # (B, H, T, d)
        feature_k, slope_k = self.phi(k)  # (B, H, S, d)
        products = feature_q @ feature_k.swapaxes(-1, -2)  # (B, H, T, S)
        if visible is not None:
            products = np.where(visible, products, 0)
        total = products.sum(axis=-1, keepdims=True)  # (B, H, T, 1)
        total = np.where(total == 0, 1, total)  # a query that sees nothing gives zeros
        weights = products / total
        output = mix(weights, visible, v)  # (B, H, T, e)
        return output, (feature_q, slope_q, feature_k, slope_k, v, weights, total, visible)

    def backward(self, doutput: Array, cache: Cache) -> tuple[Array, Array, Array]:
        """By the quotient rule dproduct = (dw - sum_j w_j dw_j) / total: each also moves the total."""
        feature_q, slope_q, feature_k, slope_k, v, weights, total, visible = cache
        dv = weights.swapaxes(-1, -2) @ doutput  # (B, H, S, e)
        dw = doutput @ v.swapaxes(-1, -2)  # (B, H, T, S)
        if visible is not None:
            dw = np.where(visible, dw, 0)  # 0 * nan is nan
        dproducts = (dw - (weights * dw).sum(axis=-1, keepdims=True)) / total
        if visible is not None:
            dproducts = np.where(visible, dproducts, 0)
        dq = mix(dproducts, visible, feature_k) * slope_q  # (B, H, T, d)
        dk = (dproducts.swapaxes(-1, -2) @ feature_q) * slope_k  # (B, H, S, d)
        return dq, dk, dv


class LinearOperation(Component[LinearAttention]):
    """q, k, v (B, H, T or S, d); `mask` (B, 1, S) hides keys."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__(LinearAttention(), dtype)

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
        q, k, v = heads_of(q, k, v, self.dtype)
        B, T, S = len(q), q.shape[2], k.shape[2]
        visible = arguments.batch_mask("mask", mask, B, 1, S)
        visible = both(visible, causal_mask(T, S) if causal else None)
        output, cache = self.layer.forward(q, k, v, visible)
        return {"output": output}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        dq, dk, dv = self.layer.backward(cotangent("output"), cache)
        return {"q": dq, "k": dk, "v": dv}


class BlockSparseOperation(Component[DotProductAttention]):
    """Attention where `blocks` (H or 1, blocks of T, blocks of S) lets a block of queries see one of keys."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.positive_sizes(config, "block")
        super().__init__(DotProductAttention(), dtype)
        self.block = config.block

    def run(
        self, rng: Random | None, *, q: Array, k: Array, v: Array, blocks: Array, causal: bool = False
    ) -> Outputs:
        q, k, v = heads_of(q, k, v, self.dtype)
        visible = self.expanded(blocks, q.shape[1], q.shape[2], k.shape[2])
        visible = both(visible, causal_mask(q.shape[2], k.shape[2]) if causal else None)
        output, _, cache = self.layer.forward(q, k, v, visible)
        return {"output": output}, cache

    def expanded(self, blocks: Array, H: int, T: int, S: int) -> Mask:
        """(1, H or 1, T, S): each entry of `blocks` stands for a square of pairs; the last may be smaller."""
        blocks = arguments.boolean("blocks", blocks)
        rows, columns = -(-T // self.block), -(-S // self.block)
        fits = blocks.ndim == 3 and blocks.shape[0] in (1, H) and blocks.shape[1:] == (rows, columns)
        rule = f"does not fit {T} queries and {S} keys in blocks of {self.block}"
        arguments.require(fits, "blocks.shape", blocks.shape, rule, f"give ({H} or 1, {rows}, {columns})")
        tall = np.repeat(blocks, self.block, axis=1)[:, :T]
        return np.repeat(tall, self.block, axis=2)[None, :, :, :S]

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        dq, dk, dv = self.layer.backward(cotangent("output"), cache)
        return {"q": dq, "k": dk, "v": dv}


def heads_of(q: Array, k: Array, v: Array, dtype: DType) -> tuple[Array, Array, Array]:
    """Queries, keys and values (B, H, length, width) that belong together."""
    q, k, v = (arguments.real_array(n, x, dtype, rank=4) for n, x in (("q", q), ("k", k), ("v", v)))
    check_attention(q, k, v)
    return q, k, v
