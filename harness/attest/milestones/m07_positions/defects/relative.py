"""Defects of relative positions: buckets of offsets, and the table of a number for each head and bucket."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.relative_positions import Relative, relative_buckets
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach


@defect("M7.10")
class offset_sign_flipped(Relative):
    """Query minus key position is taken for the offset."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        return super().buckets(-offsets, causal)


@defect("M7.10")
class far_not_clamped(Relative):
    """Beyond twice the largest distance there is one more bucket."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        found = super().buckets(offsets, causal)
        beyond = np.abs(offsets) > 2 * self.config.relative_distance
        return np.asarray(np.where(beyond, found + 1, found))


@defect("M7.10")
class one_bucket_short(Relative):
    """The last bucket of a side is never used."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        side = self.config.relative_buckets // (1 if causal else 2)
        found = super().buckets(offsets, causal)
        return np.asarray(found - (found % side == side - 1))


@defect("M7.10")
class log_base_wrong(Relative):
    """The logarithm of a far distance is divided by that of the largest, without the exact part."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        side = self.config.relative_buckets // (1 if causal else 2)
        exact = side // 2
        far = np.maximum(-offsets, 0) if causal else np.abs(offsets)
        share = np.log(np.maximum(far, 1) / exact) / math.log(self.config.relative_distance)
        late = np.minimum(exact + np.floor(share * (side - exact)), side - 1).astype(np.int64)
        return np.asarray(np.where(far < exact, far, late) + (0 if causal else side * (offsets > 0)))


@defect("M7.10")
class causal_uses_half(Relative):
    """Where it is causal, half of the buckets are still kept for keys behind the query."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        c = self.config
        return relative_buckets(np.minimum(offsets, 0) if causal else offsets, c.relative_buckets,
                                c.relative_distance, causal=False)  # fmt: skip


@defect("M7.10")
class sides_alike(Relative):
    """Keys before and behind the query share their buckets."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        return super().buckets(-np.abs(offsets), causal)


@defect("M7.10")
class own_key_lies_behind(Relative):
    """The key at the query's own position has the first bucket of keys behind it."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        side = self.config.relative_buckets // 2
        found = super().buckets(offsets, causal)
        return found if causal else np.asarray(found + side * (offsets == 0))


@defect("M7.10")
class exact_part_is_a_quarter(Relative):
    """Two-sided buckets are halved once more before logarithms begin."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        if causal:
            return super().buckets(offsets, causal)
        side = self.config.relative_buckets // 2
        exact = max(1, side // 4)
        far = np.abs(offsets)
        share = np.log(np.maximum(far, 1) / exact) / math.log(self.config.relative_distance / exact)
        late = np.minimum(exact + np.floor(share * (side - exact)), side - 1).astype(np.int64)
        return np.asarray(np.where(far < exact, far, late) + side * (offsets > 0))


@defect("M7.10")
class far_offsets_overflow(Relative):
    """Offsets are kept in eight bits."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        return super().buckets(offsets.astype(np.int8).astype(np.int64), causal)


@defect("M7.11")
class relative_head_axis_last(Relative):
    """The table is read as if it had a row for each head."""

    def looked_up(self, table: Var, buckets: Array) -> Var:
        return super().looked_up(ops.reshape(ops.swap(table), table.shape), buckets)


@defect("M7.11")
class per_layer_table(Relative):
    """Only the first layer adds the bias; the others would need tables of their own."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return None if where.layer else super().bias(p, where, T, S)


@defect("M7.11")
class relative_restarts_in_step(Relative):
    """The queries of a step stand at 0, 1, 2 ... for their buckets."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        if where.key_positions is not None and T < S:
            where = where.but(positions=np.arange(T)[None])
        return super().bias(p, where, T, S)


@defect("M7.11")
class relative_dropped_with_a_cache(Relative):
    """Where a cache is read, the bias is left out."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return None if T < S else super().bias(p, where, T, S)


@defect("M7.11")
class two_sides_in_steps(Relative):
    """A step of one token hides nothing, so its buckets are those of attention that is not causal."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return super().bias(p, where.but(causal=where.causal and (T > 1 or S == 1)), T, S)


@defect("M7.11")
class two_sides_although_causal(Relative):
    """Attention that is causal uses half of the buckets."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return super().bias(p, where.but(causal=False), T, S)


@defect("M7.11")
class relative_scaled_by_sqrt_d(Relative):
    """In attention the bias is added before the scores are scaled."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        found = super().bias(p, where, T, S)
        return None if found is None else ops.scale(found, 1 / math.sqrt(self.config.d_head))


@defect("M7.11")
class relative_gradient_of_one_row(Relative):
    """The table learns from the first row of the batch alone."""

    def looked_up(self, table: Var, buckets: Array) -> Var:
        first, others = super().looked_up(table, buckets[:1]), super().looked_up(detach(table), buckets[1:])
        return ops.concat([first, others], axis=1) if len(buckets) > 1 else first


@defect("M7.17")
class relative_table_cut_off_in_attention(Relative):
    """In attention no gradient reaches the table."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        found = super().bias(p, where, T, S)
        return None if found is None else detach(found)


@defect("M7.16")
class overwrites_positions(ReferenceComponent):
    """The caller's positions count on after a call."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if inputs.get("positions") is not None:
            inputs["positions"] += 1
        return found
