"""Scaled dot-product attention (section 3.2.1 of the paper), its gradient, and the masks.

Shapes: ... leading axes, T queries, S keys, d = d_k width of q and k, e = d_v width of v.
A mask is True where a query may attend; None means everywhere.
"""

import math

import numpy as np

from .arguments import is_integer, require


def length_mask(lengths, size):
    """(B,) lengths -> (B, 1, S): the first `length` keys of each row may be attended."""
    lengths = np.asarray(lengths)
    require(lengths.ndim == 1, "lengths.shape", lengths.shape, "is not of rank 1", "give (B,)")
    require(lengths.dtype.kind in "iu", "lengths.dtype", str(lengths.dtype), "is not integer", "give int64")
    require(is_integer(size) and size >= 0, "size", size, "is not a length", "give an integer, as 8")
    inside = bool(((lengths >= 0) & (lengths <= size)).all())
    require(inside, "lengths", lengths.tolist(), f"are not all within 0 and size={size}", "enlarge size")
    return (np.arange(size) < lengths[:, None])[:, None, :]


def padding_mask(ids, pad_id):
    """(B, S) ids -> (B, 1, S): every key that is not padding may be attended."""
    ids = np.asarray(ids)
    require(ids.ndim == 2, "ids.shape", ids.shape, "is not of rank 2", "give (B, S)")
    require(ids.dtype.kind in "iu", "ids.dtype", str(ids.dtype), "is not an integer type", "give int64")
    return (ids != pad_id)[:, None, :]


def causal_mask(T, S):
    """(T, S): the last query sees every key, each query before it one fewer (bottom-right aligned)."""
    for name, size in (("T", T), ("S", S)):
        require(is_integer(size) and size >= 0, name, size, "is not a length", "give an integer, as 8")
    return np.arange(S) <= np.arange(T)[:, None] + (S - T)


def both(mask, other):
    """Allowed by all: None allows everything."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask & other


def mix(weights, visible, values):
    """weights @ values, where a value that is not visible counts as nothing, whatever it is.

    A weight of zero is enough for finite values. It is not for the others: 0 * nan is nan. So those are left
    out of the sum, and an output that may see one of them is nan.
    """
    finite = np.isfinite(values)
    if visible is None or finite.all():
        return weights @ values
    visible = np.broadcast_to(visible, weights.shape)
    spoiled = visible.astype(values.dtype) @ (~finite).astype(values.dtype) > 0
    return np.where(spoiled, np.nan, weights @ np.where(finite, values, 0))


def softmax(scores, visible):
    """Softmax over the keys that are visible; a row that sees no key is zero."""
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    peak = np.where(peak == -np.inf, 0, peak)  # -inf - (-inf) is nan
    powers = np.exp(scores - peak)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def softmax_backward(dweights, weights):
    """weights_i (dw_i - sum_j weights_j dw_j): zero wherever the weight is zero."""
    return weights * (dweights - (weights * dweights).sum(axis=-1, keepdims=True))


def attention_forward(q, k, v, visible):
    """softmax(q k^T / sqrt(d)) v: output (..., T, e), weights (..., T, S), and what backward needs."""
    scale = 1 / math.sqrt(q.shape[-1])  # a Python float leaves float32 as it is
    scores = (q @ k.swapaxes(-1, -2)) * scale  # (..., T, S)
    weights = softmax(scores, visible)
    output = mix(weights, visible, v)  # (..., T, e)
    return output, weights, (q, k, v, weights, visible, scale)


def attention_backward(doutput, dweights, cache):
    """Gradients of q, k and v. `dweights` is the cotangent of the returned weights, or None."""
    q, k, v, weights, visible, scale = cache
    dv = weights.swapaxes(-1, -2) @ doutput  # (..., S, e)
    dw = doutput @ v.swapaxes(-1, -2)  # (..., T, S)
    if dweights is not None:
        dw = dw + dweights
    if visible is not None:
        dw = np.where(visible, dw, 0)  # 0 * nan is nan
    dscores = softmax_backward(dw, weights) * scale
    dq = mix(dscores, visible, k)
    dk = mix(dscores.swapaxes(-1, -2), transposed(visible, dscores.shape), q)
    return dq, dk, dv


def transposed(visible, shape):
    """The mask with queries and keys exchanged."""
    return None if visible is None else np.broadcast_to(visible, shape).swapaxes(-1, -2)
