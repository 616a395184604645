"""Correct but unusual positions. Shapes: x (..., T, d), angles (B, T, r / 2), bias (H, B, T, S)."""

from __future__ import annotations

import math

import numpy as np

from attest.contract import float_dtype
from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.decoding.cache import Kept
from attest.reference.decoding.text_cache import KeysAndValues, TextCache
from attest.reference.models.decoder_only import DecoderOnly
from attest.reference.parts.attention import Attention
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.positions import Learned
from attest.reference.parts.relative_positions import Alibi, Relative, Rotary
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf, node


@variant("M7")
class rotary_by_rotate_half(Rotary):
    """x cos + rotate_half(x) sin with a table in which each frequency stands twice."""

    def turned(self, first: Var, second: Var, cos: Var, sin: Var) -> tuple[Var, Var]:
        x, turned = ops.concat([first, second]), ops.concat([ops.scale(second, -1.0), first])
        half = first.shape[-1]
        both = ops.add(ops.mul(x, ops.concat([cos, cos])), ops.mul(turned, ops.concat([sin, sin])))
        return ops.columns(both, 0, half), ops.columns(both, half, 2 * half)


@variant("M7")
class rotary_by_complex_numbers(Rotary):
    """A pair is a complex number; turning multiplies it by e^(i angle), and back by the conjugate."""

    def turned(self, first: Var, second: Var, cos: Var, sin: Var) -> tuple[Var, Var]:
        spin = cos.value + 1j * sin.value
        value = (first.value + 1j * second.value) * spin

        def real_back(g: Array) -> tuple[Array, Array]:
            back = g * spin.conj()
            return back.real, back.imag

        def imaginary_back(g: Array) -> tuple[Array, Array]:
            back = 1j * g * spin.conj()
            return back.real, back.imag

        pair = (first, second)
        return node(value.real, pair, real_back), node(value.imag, pair, imaginary_back)


@variant("M7")
class rotary_by_matrices(Rotary):
    """Every pair is a column that a matrix of two rows turns."""

    def turned(self, first: Var, second: Var, cos: Var, sin: Var) -> tuple[Var, Var]:
        c, s = cos.value, sin.value
        matrices = np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)  # (..., r / 2, 2, 2)
        columns = ops.stack([first, second], axis=-1)
        columns = ops.reshape(columns, (*columns.shape, 1))
        turned = ops.reshape(ops.matmul(leaf(matrices), columns), columns.shape[:-1])
        return ops.index(turned, (..., 0)), ops.index(turned, (..., 1))


@variant("M7")
class rotary_table_precomputed(Rotary):
    """A table of as many positions as were met so far is made once and looked up."""

    table: Array | None = None

    def angles(self, positions: Array, rotated: int) -> Array:
        longest = int(np.max(positions, initial=0)) + 1
        if longest > 10_000:
            return super().angles(positions, rotated)  # too long to keep
        if self.table is None or len(self.table) < longest or self.table.shape[1] != rotated // 2:
            self.table = super().angles(np.arange(longest), rotated)
        return self.table[positions]


@variant("M7")
class frequencies_by_exponentials(Rotary):
    """exp(-2i/r log base) instead of a power."""

    def unscaled(self, rotated: int) -> Array:
        return np.asarray(np.exp(-self.exponents(rotated) * math.log(self.base())))


@variant("M7")
class linear_scaling_by_positions(Rotary):
    """The rule linear divides positions, as it was published, and leaves frequencies as they are."""

    def angles(self, positions: Array, rotated: int) -> Array:
        if self.config.rotary_scaling != "linear":
            return super().angles(positions, rotated)
        places = np.asarray(positions, np.float64)[..., None] / self.config.rotary_factor
        return np.asarray(places * self.unscaled(rotated))


@variant("M7")
class gain_on_queries_and_keys(Rotary):
    """The gain of YaRN multiplies what was turned, not cosine and sine."""

    def cos_and_sin(self, angles: Array, eps: float) -> tuple[Var, Var]:
        gain = 1 / self.parts.rotary_scaling.gain()
        cos, sin = super().cos_and_sin(angles, eps)
        return (cos, sin) if gain == 1 else (ops.scale(cos, gain), ops.scale(sin, gain))

    def turned(self, first: Var, second: Var, cos: Var, sin: Var) -> tuple[Var, Var]:
        gain = self.parts.rotary_scaling.gain()
        one, other = super().turned(first, second, cos, sin)
        return (one, other) if gain == 1 else (ops.scale(one, gain), ops.scale(other, gain))


@variant("M7")
class rotary_from_elsewhere(DecoderOnly):
    """In a model all rotary positions lie 7 further: only their distances count."""

    def positions(self, real: Array, before: Array) -> Array:
        found = super().positions(real, before)
        return found if self.config.ends_at_max_len else found + 7


@variant("M7")
class interleaved_by_permuted_weights(MultiHead):
    """Interleaved pairs are made halves: features of queries and keys, and their gains, are permuted."""

    def order(self) -> list[int]:
        """Where the features of halves stand among interleaved pairs, for one head."""
        d = self.config.d_head
        rotated = round(d * self.config.rotary_fraction)
        return [*range(0, rotated, 2), *range(1, rotated, 2), *range(rotated, d)]

    def turned_queries(self, q: Var, p: Scope, where: Where) -> Var:
        return self.turned(q, p, "query", where)

    def turned_keys(self, k: Var, p: Scope, where: Where) -> Var:
        return self.turned(k, p, "key", where)

    def turned(self, x: Var, p: Scope, name: str, where: Where) -> Var:
        """Permuted, normed with permuted gains, and turned as halves."""
        config = self.config
        if (config.positions, config.rotary_pairing) != ("rotary", "interleaved"):
            return self.parts.positions.rotate(self.normed(x, p, f"{name}_norm"), where)
        x = self.permuted(x, p, name)
        if config.qk_norm:
            x = self.parts.rms_norm(x, Scope({"weight": self.gains(p[f"{name}_norm.weight"])}))
        return Rotary(config.but(rotary_pairing="halves"), self.parts).rotate(x, where)

    def permuted(self, x: Var, p: Scope, name: str) -> Var:
        """Features (B, heads, T, d) in the order of halves."""
        return ops.index(x, (..., self.order()))

    def gains(self, gains: Var) -> Var:
        """(d) in the same order."""
        return ops.index(gains, self.order())


@variant("M7")
class keys_turned_when_read(TextCache):
    """The cache holds keys as they are, and turns them where they stand at every step."""

    def grow(self, held: KeysAndValues, y: Var, p: Scope, where: Where) -> KeysAndValues:
        heads, projections = self.parts.heads, self.parts.projections
        k, v = (heads.split(x, self.config.kv_heads) for x in projections.key_value(y, p))
        return KeysAndValues(self.append(held.keys, k.value), self.append(held.values, v.value))

    def attended(self, grown: KeysAndValues, y: Var, p: Scope, where: Where) -> Var:
        keys = self.parts.heads.turned_keys(
            leaf(grown.keys.array), p, where.but(positions=where.key_positions)
        )
        return super().attended(KeysAndValues(Kept(keys.value), grown.values), y, p, where)


@variant("M7")
class alibi_as_slope_times_key(Alibi):
    """slope times the key's position where it is causal: a constant for each query less.

    A sink has no position, so beside one the constant is not lost in the softmax.
    """

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        if where.place == "cross" or self.config.sinks or not where.causal or not self.in_order(where, T, S):
            return super().bias(p, where, T, S)
        keys = where.keys(T, S)[:, None, :].astype(np.float64)
        return Var(self.slopes(self.config.num_heads)[:, None, None, None] * keys)

    def in_order(self, where: Where, T: int, S: int) -> bool:
        """Whether every key that may be seen stands at its query or before it."""
        keys = where.keys(T, S)
        return bool((np.diff(keys, axis=1) >= 0).all())


@variant("M7")
class scores_rounded_beside_slope_times_key(Attention):
    """The same bias, and the scores with it are rounded to the dtype: at the size of slope times key."""

    def biased(self, scores: Var, where: Where) -> Var:
        total, positions = super().biased(scores, where), self.parts.positions
        if not isinstance(positions, Alibi) or not where.causal or self.config.sinks or scores.ndim < 4:
            return total
        queries = where.queries(scores.shape[-2])[:, None, :, None]
        lost = positions.slopes(self.config.num_heads)[:, None, None] * queries
        added = total.value + lost
        return ops.add(total, added.astype(float_dtype(self.config.dtype)) - added)


@variant("M7")
class slopes_in_a_loop(Alibi):
    """Slope by slope, each the one before times a ratio."""

    def slopes(self, heads: int) -> Array:
        n = 2 ** int(math.log2(heads))
        found, between = [2.0 ** (-8 / n)], [2.0 ** (-4 / n)]
        while len(found) < n:
            found.append(found[-1] * found[0])
        while len(between) < heads - n:
            between.append(between[-1] * found[0])
        return np.array([*found, *between[: heads - n]])


@variant("M7")
class buckets_by_logarithms(Relative):
    """Far buckets by logarithms in float64; where one falls on a whole number within rounding, it is that."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        side = self.config.relative_buckets // (1 if causal else 2)
        exact = side // 2
        far = np.maximum(-offsets, 0) if causal else np.abs(offsets)
        share = np.log(np.maximum(far, 1) / exact) / math.log(self.config.relative_distance / exact)
        late = np.minimum(exact + np.floor(share * (side - exact) + 1e-9), side - 1).astype(np.int64)
        found = np.where(far < exact, far, late)
        return np.asarray(found + (0 if causal else side * (offsets > 0)))


@variant("M7")
class relative_by_one_hot(Relative):
    """Each bucket as a row of zeros and a one, times the table."""

    def looked_up(self, table: Var, buckets: Array) -> Var:
        chosen = leaf(np.eye(table.shape[0])[buckets])  # (B, T, S, buckets)
        product = ops.matmul(chosen, table)
        return ops.swap(ops.swap(ops.swap(product, -1, -2), -2, -3), 0, 1)


@variant("M7")
class learned_by_one_hot(Learned):
    """Each position as a row of zeros and a one, times the table."""

    def rows(self, table: Var, positions: Array) -> Var:
        return ops.matmul(leaf(np.eye(table.shape[0])[positions]), table)
