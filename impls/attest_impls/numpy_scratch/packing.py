"""Several documents side by side in one row: each sees itself alone, and its positions count from 0.

Shapes: B rows, T tokens, N documents of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attest.contract import Array, Config

from .arguments import length_within, require


@dataclass(frozen=True)
class Layout:
    """Where the documents of each row lie."""

    positions: Array  # (B, T): from 0 in each document
    own: Array  # (B, T, T): whether a key belongs to the document of the query
    goes_on: Array  # (B, T - 1): whether the next token belongs to the same document


def laid_out(lengths: Array, T: int) -> Layout:
    """Documents of `lengths` (B, N) one behind the other; a length of 0 is none, and the rest is padding."""
    ends = np.cumsum(lengths, axis=1)  # (B, N)
    places = np.arange(T)
    document = (places[None, :, None] >= ends[:, None, :]).sum(axis=2)  # (B, T); N behind the last one
    inside = document < lengths.shape[1]
    begins = np.concatenate([np.zeros_like(ends[:, :1]), ends], axis=1)  # (B, N + 1)
    positions = np.where(inside, places - np.take_along_axis(begins, document, axis=1), 0)
    own = (document[:, :, None] == document[:, None, :]) & inside[:, None, :]
    goes_on = (document[:, 1:] == document[:, :-1]) & inside[:, 1:]
    return Layout(positions, own, goes_on)


def check_lengths(config: Config, lengths: Array, ids: Array) -> Array:
    """Whole numbers (B, N) that fit into their rows; it is documents that positions must reach, not rows."""
    lengths = np.asarray(lengths)
    rows, T = ids.shape
    good = lengths.ndim == 2 and len(lengths) == rows and lengths.shape[1] > 0 and lengths.dtype.kind in "iu"
    require(good, "lengths.shape", lengths.shape, f"is not ({rows}, documents) integers", "give a row each")
    total = int(lengths.sum(axis=1).max())
    fits = bool((lengths >= 0).all()) and total <= T
    rule = f"is negative, or sums to more than the {T} ids of a row"
    require(fits, "lengths", lengths.tolist(), rule, "give shorter documents, 0 to leave one out")
    if config.ends_at_max_len:
        length_within("lengths", int(lengths.max()), config.max_len)
    return lengths
