"""Softmax and scaled dot-product attention (section 3.2.1 of the paper), each with its gradient.

Shapes: ... leading axes, T queries, S keys, d = d_k width of q and k, e = d_v width of v.
"""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Array

from .layers import Cache, Layer
from .masks import Mask, mix, transposed


class Softmax(Layer):
    """exp(x_i) / sum_j exp(x_j) over the last axis; an entry that is not visible has no part in it."""

    def forward(self, x: Array, visible: Mask = None) -> tuple[Array, Cache]:
        """A row that sees nothing is zero. The output is all that backward needs."""
        if visible is not None:
            x = np.where(visible, x, -np.inf)
        # softmax(x) = softmax(x - c). With the largest entry as c, no exponential overflows.
        peak = x.max(axis=-1, keepdims=True)  # (..., T, 1)
        peak = np.where(peak == -np.inf, 0, peak)  # -inf - (-inf) is nan
        y = x - peak  # (..., T, S)
        np.exp(y, out=y)
        total = y.sum(axis=-1, keepdims=True)  # (..., T, 1)
        y /= np.where(total == 0, 1, total)
        return y, y

    def backward(self, dy: Array, cache: Cache) -> Array:
        """dx_i = y_i (dy_i - sum_j y_j dy_j). Zero where y is zero: what is not visible has no gradient.

        By the quotient rule, with y_j = exp(x_j) / total: the slope of y_j along x_i is y_j ([i = j] - y_i).
        The first part is exp(x_j) itself, the second the total, which every x_i moves. Summed over all
        outputs j, sum_j dy_j y_j ([i = j] - y_i), this is the line above.
        """
        y: Array = cache  # (..., T, S)
        dx = y * dy
        dx -= y * dx.sum(axis=-1, keepdims=True)
        return dx


class DotProductAttention(Layer):
    """softmax(q k^T / sqrt(d)) v.

    The product of two vectors of d entries of variance one has variance d. Dividing by sqrt(d) brings the
    scores back to variance one, where the softmax still has a gradient for every key.
    """

    def __init__(self, scale: float | None = None, cap: float | None = None) -> None:
        super().__init__()
        self.softmax, self.scale, self.cap = Softmax(), scale, cap

    def forward(
        self,
        q: Array,
        k: Array,
        v: Array,
        visible: Mask,
        bias: Array | None = None,
        sinks: Array | None = None,
    ) -> tuple[Array, Array, Cache]:
        """The output, the weights, and the cache.

        `bias` is added to the scaled scores. `sinks` (H, 1, 1) is one score more for each query, whose weight
        goes to no value.
        """
        # a Python float leaves float32 as it is
        scale = 1 / math.sqrt(q.shape[-1]) if self.scale is None else float(self.scale)
        scores = q @ k.swapaxes(-1, -2)  # (..., T, S)
        scores *= scale
        slope: Array | None = None
        if self.cap is not None:
            bent = np.tanh(scores / scores.dtype.type(self.cap))
            scores, slope = bent * scores.dtype.type(self.cap), 1 - bent * bent  # (..., T, S) both
        if bias is not None:
            scores += bias
        if sinks is None:
            weights, every = self.softmax.forward(scores, visible)  # (..., T, S)
        else:
            weights, every = self.beside(scores, visible, sinks)
        output = mix(weights, visible, v)  # (..., T, e)
        return output, weights, (q, k, v, weights, visible, scale, slope, every)

    def beside(self, scores: Array, visible: Mask, sinks: Array) -> tuple[Array, Array]:
        """The weights of the keys, and all weights (..., T, S + 1), that of the sink last."""
        last = np.broadcast_to(sinks, (*scores.shape[:-1], 1)).astype(scores.dtype)
        if visible is not None:
            scores = np.where(visible, scores, -np.inf)
        every, _ = self.softmax.forward(np.concatenate([scores, last], axis=-1))
        return every[..., :-1], every

    def backward(
        self, doutput: Array, cache: Cache, dweights: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Gradients of q, k and v. `dweights` is that of the returned weights, if anybody used them."""
        dq, dk, dv, _, _ = self.gradients(doutput, cache, dweights)
        return dq, dk, dv

    def gradients(
        self, doutput: Array, cache: Cache, dweights: Array | None = None
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Gradients of q, k, v, of a bias on the scores and of sinks (..., T, 1); none without sinks.

        The steps of forward in reverse. Of a product C = A B, the gradients are dA = dC B^T and dB = A^T dC:
        C_ts = sum_j A_tj B_js, so A_tj moves every C_ts of its row by B_js, and dA_tj = sum_s dC_ts B_js; in
        the same way for B. output = weights v gives dv and dw. The softmax turns dw into dscores.
        scores = scale q k^T + bias gives dbias = dscores, dq = scale dscores k and dk = scale dscores^T q. A
        cap c stands between: c tanh(s / c) has the slope 1 - tanh^2.
        """
        q, k, v, weights, visible, scale, slope, every = cache
        dv = weights.swapaxes(-1, -2) @ doutput  # (..., S, e)
        dw = doutput @ v.swapaxes(-1, -2)  # (..., T, S)
        if dweights is not None:
            dw += dweights
        if visible is not None:
            dw = np.where(visible, dw, 0)  # 0 * nan is nan
        dbias, dsinks = self.score_gradients(dw, every)
        dscores = dbias * scale if slope is None else dbias * slope * scale
        dq = mix(dscores, visible, k)  # (..., T, d)
        dk = mix(dscores.swapaxes(-1, -2), transposed(visible, dscores.shape), q)  # (..., S, d)
        return dq, dk, dv, dbias, dsinks

    def score_gradients(self, dw: Array, every: Array) -> tuple[Array, Array]:
        """Gradients of the scores of the keys (..., T, S), and of the sink's (..., T, 1) if there is one."""
        S = dw.shape[-1]
        if every.shape[-1] == S:
            return self.softmax.backward(dw, every), dw[..., :0]
        nothing = np.zeros((*dw.shape[:-1], 1), dw.dtype)  # the weight of a sink reaches no output
        dboth = self.softmax.backward(np.concatenate([dw, nothing], axis=-1), every)
        return dboth[..., :S], dboth[..., S:]
