"""Which keys a query may see. True: may attend.

Shapes: B batch, T queries, S keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference.parts.part import Part, function
from attest.reference.parts.where import Where
from attest.reference.tape import Array

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Masks(Part):
    """Masks from lengths and ids, the triangle, and how they join."""

    def length_mask(self, lengths: Array, size: int) -> Array:
        """(B, 1, S): key j of a row may be seen when j is below the row's length."""
        mask: Array = np.arange(size) < np.asarray(lengths)[:, None]
        return mask[:, None, :]

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        """(B, 1, S): whatever is not padding may be seen."""
        mask: Array = np.asarray(ids) != pad_id
        return mask[:, None, :]

    def causal_allowed(self, T: int, S: int) -> Array:
        """(T, S), aligned at the bottom right: the last query sees every key."""
        allowed: Array = np.arange(S)[None, :] <= np.arange(T)[:, None] + (S - T)
        return allowed

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        """Allowed by all that are given."""
        given = [np.asarray(m).astype(bool) for m in (mask, causal) if m is not None]
        if len(given) == 2:
            both: Array = given[0] & given[1]
            return both
        return given[0] if given else None

    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        """The mask of a query that sees what its window reaches; as given where there is none."""
        if self.config.window is None or where.place == "cross":
            return mask
        near = self.near(where.queries(T)[:, :, None] - where.keys(T, S)[:, None, :])
        return near if mask is None else near & np.asarray(mask).astype(bool)

    def near(self, distance: Array) -> Array:
        """Whether a key so far before its query may be seen; negative: it comes behind."""
        assert self.config.window is not None
        ahead = distance >= 0 if self.config.window_sides == "before" else distance > -self.config.window
        near: Array = ahead & (distance < self.config.window)
        return near

    def allowed(self, where: Where, T: int, S: int) -> Array | None:
        """What T queries may see of S keys; None when they may see everything."""
        triangle = self.causal_allowed(T, S) if where.causal else None
        return self.combine_masks(where.mask, triangle)

    def check_lengths(self, lengths: Array, size: int) -> None:
        """One whole number per row, none beyond the keys there are."""
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
            raise ValueError(f"lengths shape={lengths.shape} dtype={lengths.dtype}: give (B,) integers")
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= size:
            raise ValueError(f"lengths={lengths.tolist()} leave [0, size={size}]; enlarge size")

    def check_sizes(self, T: int, S: int) -> None:
        """Numbers of queries and keys."""
        if min(T, S) < 0:
            raise ValueError(f"T={T}, S={S} are not both lengths; give 0 or more")

    def check_rows(self, ids: Array) -> None:
        """One row of ids per sequence."""
        if ids.ndim != 2:
            raise ValueError(f"ids shape={ids.shape} is not (B, S); give one row per sequence")


@function("length_mask")
def _length_mask(parts: Parts, lengths: Array, size: int) -> Array:
    parts.masks.check_lengths(np.asarray(lengths), size)
    return parts.masks.length_mask(np.asarray(lengths), size)


@function("padding_mask")
def _padding_mask(parts: Parts, ids: Array, pad_id: int) -> Array:
    parts.masks.check_rows(np.asarray(ids))
    return parts.masks.padding_mask(np.asarray(ids), pad_id)


@function("causal_mask")
def _causal_mask(parts: Parts, T: int, S: int) -> Array:
    parts.masks.check_sizes(T, S)
    return parts.masks.causal_allowed(T, S)
