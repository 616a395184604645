"""Who may attend to whom, and how to keep what is hidden from having any effect.

Shapes: B batch, T queries, S keys. A mask is True where a query may attend; None means everywhere.
"""

from __future__ import annotations

import numpy as np

from attest.contract import Array

from .arguments import is_integer, require

Mask = Array | None


def length_mask(lengths: Array, size: int) -> Array:
    """(B,) lengths -> (B, 1, S): the first `length` keys of each row may be attended."""
    lengths = np.asarray(lengths)
    require(lengths.ndim == 1, "lengths.shape", lengths.shape, "is not of rank 1", "give (B,)")
    require(lengths.dtype.kind in "iu", "lengths.dtype", str(lengths.dtype), "is not integer", "give int64")
    require(is_integer(size) and size >= 0, "size", size, "is not a length", "give an integer, as 8")
    inside = bool(((lengths >= 0) & (lengths <= size)).all())
    require(inside, "lengths", lengths.tolist(), f"are not all within 0 and size={size}", "enlarge size")
    mask: Array = (np.arange(size) < lengths[:, None])[:, None, :]
    return mask


def padding_mask(ids: Array, pad_id: int) -> Array:
    """(B, S) ids -> (B, 1, S): every key that is not padding may be attended."""
    ids = np.asarray(ids)
    require(ids.ndim == 2, "ids.shape", ids.shape, "is not of rank 2", "give (B, S)")
    require(ids.dtype.kind in "iu", "ids.dtype", str(ids.dtype), "is not an integer type", "give int64")
    mask: Array = (ids != pad_id)[:, None, :]
    return mask


def causal_mask(T: int, S: int) -> Array:
    """(T, S): the last query sees every key, each query before it one fewer (bottom-right aligned)."""
    for name, size in (("T", T), ("S", S)):
        require(is_integer(size) and size >= 0, name, size, "is not a length", "give an integer, as 8")
    mask: Array = np.arange(S) <= np.arange(T)[:, None] + (S - T)
    return mask


def both(mask: Mask, other: Mask) -> Mask:
    """Allowed by both: None allows everything."""
    if mask is None or other is None:
        return other if mask is None else mask
    joined: Array = mask & other
    return joined


def transposed(visible: Mask, shape: tuple[int, ...]) -> Mask:
    """The mask of scores of this shape, with queries and keys exchanged."""
    return None if visible is None else np.broadcast_to(visible, shape).swapaxes(-1, -2)


def mix(weights: Array, visible: Mask, values: Array) -> Array:
    """weights @ values, where a value that is not visible counts as nothing, whatever it is.

    A weight of zero is enough for finite values. It is not for the others: 0 * nan is nan. So those are left
    out of the sum, and an output that may see one of them is nan. One value that is not finite spoils a whole
    column of the plain product, so a finite product needs no second look.
    """
    product: Array = weights @ values
    if visible is None or np.isfinite(product).all():
        return product
    finite = np.isfinite(values)
    visible = np.broadcast_to(visible, weights.shape)
    spoiled = visible.astype(values.dtype) @ (~finite).astype(values.dtype) > 0
    return np.where(spoiled, np.nan, weights @ np.where(finite, values, 0)).astype(product.dtype)
