"""Defects of ALiBi: slopes (H), and the bias (H, B, T, S) that they give."""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.positions import Sinusoids
from attest.reference.parts.relative_positions import Alibi
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@defect("M7.8")
class slopes_not_interpolated(Alibi):
    """2^(-8i/H) for every H, also where H is no power of two."""

    def slopes(self, heads: int) -> Array:
        slopes: Array = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
        return slopes


@defect("M7.8")
class slopes_start_at_one(Alibi):
    """The first slope is 2^0."""

    def slopes(self, heads: int) -> Array:
        n = 2 ** math.floor(math.log2(heads))
        return super().slopes(heads) * float(2.0 ** (8.0 / n))


@defect("M7.8")
class slope_exponent_off_by_one(Alibi):
    """Head i has the slope of head i + 1."""

    def slopes(self, heads: int) -> Array:
        n = 2 ** math.floor(math.log2(heads))
        return super().slopes(heads) * float(2.0 ** (-8.0 / n))


@defect("M7.8")
class slopes_of_32_heads_repeat(Alibi):
    """Heads beyond the 32nd have the slopes of the first 32 again."""

    def slopes(self, heads: int) -> Array:
        return np.resize(super().slopes(min(heads, 32)), heads)


@defect("M7.8")
class slopes_reversed(Alibi):
    """The steepest slope comes last."""

    def slopes(self, heads: int) -> Array:
        return np.flip(super().slopes(heads))


@defect("M7.8")
class slopes_sorted(Alibi):
    """Slopes in between stand between the others instead of behind them."""

    def slopes(self, heads: int) -> Array:
        return np.flip(np.sort(super().slopes(heads)))


@defect("M7.8")
class slopes_of_the_next_power(Alibi):
    """Where H is no power of two, the first H slopes of the next one."""

    def slopes(self, heads: int) -> Array:
        return super().slopes(2 ** math.ceil(math.log2(heads)))[:heads]


@defect("M7.8")
class slopes_between_by_even_places(Alibi):
    """Where H is no power of two, the second, fourth ... slopes of the next one are added, not the first."""

    def slopes(self, heads: int) -> Array:
        n = 2 ** math.floor(math.log2(heads))
        return np.concatenate([super().slopes(n), super().slopes(2 * n)[1::2][: heads - n]])


@defect("M7.9")
class alibi_sign_flipped(Alibi):
    """Far keys are preferred."""

    def distances(self, queries: Array, keys: Array) -> Array:
        return -super().distances(queries, keys)


@defect("M7.9")
class alibi_scaled_by_sqrt_d(Alibi):
    """The bias is added before the scores are scaled."""

    def distances(self, queries: Array, keys: Array) -> Array:
        return super().distances(queries, keys) / math.sqrt(self.config.d_head)


@defect("M7.9")
class heads_share_slope(Alibi):
    """Every head has the slope of the first."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        found = super().bias(p, where, T, S)
        return None if found is None else ops.index(found, [0] * found.shape[0])


@defect("M7.9")
class alibi_one_sided(Alibi):
    """Keys behind the query are not lowered."""

    def distances(self, queries: Array, keys: Array) -> Array:
        signed: Array = queries[:, :, None] - keys[:, None, :]
        return np.maximum(signed, 0).astype(np.float64)


@defect("M7.9")
class alibi_by_index(Alibi):
    """Distances are counted in the array, whatever positions are given."""

    def distances(self, queries: Array, keys: Array) -> Array:
        T, S = queries.shape[1], keys.shape[1]
        return super().distances(np.arange(S - T, S)[None], np.arange(S)[None])


@defect("M7.9")
class alibi_with_sinusoids(Alibi):
    """A model adds sinusoids to its embeddings as well."""

    def add(self, x: Var, where: Where) -> Var:
        table = Sinusoids(self.config, self.parts).table(int(where.queries(x.shape[1]).max()) + 1, x.shape[2])
        return ops.add(x, table[where.queries(x.shape[1])])


@defect("M7.9")
class alibi_restarts_in_step(Alibi):
    """The queries of a step stand at 0, 1, 2 ... for their distances."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        if where.key_positions is not None and T < S:
            where = where.but(positions=np.arange(T)[None])
        return super().bias(p, where, T, S)


@defect("M7.9")
class alibi_dropped_with_a_cache(Alibi):
    """Where a cache is read, the bias is left out."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return None if T < S else super().bias(p, where, T, S)
