"""Defects of relative positions: buckets of offsets, and the table of a number for each head and bucket."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.relative_positions import Relative
from attest.reference.tape import Array, Var


@defect("M7.10")
class offset_sign_flipped(Relative):
    """Query minus key position is taken for the offset."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        return super().buckets(-offsets, causal)


@defect("M7.10")
class far_not_clamped(Relative):
    """Beyond the largest distance the buckets go on."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        found = super().buckets(offsets, causal)
        beyond = np.abs(offsets) > 2 * self.config.relative_distance
        return np.asarray(np.where(beyond, found + 1, found))


@defect("M7.11")
class relative_head_axis_last(Relative):
    """The table is read as if it had a row for each head."""

    def looked_up(self, table: Var, buckets: Array) -> Var:
        return super().looked_up(ops.reshape(ops.swap(table), table.shape), buckets)


@defect("M7.16")
class overwrites_positions(ReferenceComponent):
    """The caller's positions count on after a call."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if inputs.get("positions") is not None:
            inputs["positions"] += 1
        return found
