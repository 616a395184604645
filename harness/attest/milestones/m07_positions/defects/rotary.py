"""Defects of rotary positions. Shapes: x (..., T, d), angles (B, T, r / 2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.relative_positions import Rotary
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node


def as_bfloat16(x: Array) -> Array:
    """Rounded to the eight bits of a bfloat16."""
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    rounded: Array = np.ldexp(np.round(mantissa * 256) / 256, exponent)
    return rounded


@defect("M7.2")
class pairing_swapped(Rotary):
    """Halves are turned where pairs were asked for, and pairs where halves were."""

    def pairs(self, x: Var, rotated: int) -> tuple[Var, Var]:
        return self.other().pairs(x, rotated)

    def joined(self, first: Var, second: Var) -> Var:
        return self.other().joined(first, second)

    def other(self) -> Rotary:
        """The part of the other pairing."""
        word = "halves" if self.config.rotary_pairing == "interleaved" else "interleaved"
        return Rotary(self.config.but(rotary_pairing=word), self.parts)


@defect("M7.2", "M7.3")
class frequencies_interleaved_rotation_half(Rotary):
    """A table whose frequencies stand twice side by side, for a rotation that pairs the halves."""

    def turned(self, first: Var, second: Var, cos: Var, sin: Var) -> tuple[Var, Var]:
        if self.config.rotary_pairing == "interleaved":
            return super().turned(first, second, cos, sin)
        (cos1, cos2), (sin1, sin2) = (self.in_halves(table) for table in (cos, sin))
        return (
            ops.sub(ops.mul(first, cos1), ops.mul(second, sin1)),
            ops.add(ops.mul(second, cos2), ops.mul(first, sin2)),
        )

    def in_halves(self, table: Var) -> tuple[Var, Var]:
        """The halves of f0 f0 f1 f1 ..."""
        half = table.shape[-1]
        twice = ops.index(table, (..., [i // 2 for i in range(2 * half)]))
        return ops.columns(twice, 0, half), ops.columns(twice, half, 2 * half)


@defect("M7.2")
class theta_ignored(Rotary):
    """The base is 10000 whatever is configured."""

    def base(self) -> float:
        return 10000.0


@defect("M7.2")
class exponent_over_d_model(Rotary):
    """The exponent of a frequency is divided by the width of all heads."""

    heads = 1

    def rotate_at(self, x: Var, positions: Array) -> Var:
        self.heads = x.shape[1] if x.ndim == 4 else self.config.num_heads
        return super().rotate_at(x, positions)

    def exponents(self, rotated: int) -> Array:
        return super().exponents(rotated) / self.heads


@defect("M7.2")
class exponent_over_whole_head(Rotary):
    """Where a part of the head is turned, the exponent is divided by the width of the whole head."""

    def exponents(self, rotated: int) -> Array:
        return super().exponents(rotated) * self.config.rotary_fraction


@defect("M7.2")
class rotary_exponent_i_not_2i(Rotary):
    """Pair i turns with the frequency base^(-i/r)."""

    def exponents(self, rotated: int) -> Array:
        return super().exponents(rotated) / 2


@defect("M7.2")
class exponent_by_last_pair(Rotary):
    """The exponents run to 1 at the last pair, as those of a linspace do."""

    def exponents(self, rotated: int) -> Array:
        return np.linspace(0.0, 1.0, rotated // 2)


@defect("M7.2")
class angle_negated(Rotary):
    """Every pair turns the other way."""

    def angles(self, positions: Array, rotated: int) -> Array:
        return -super().angles(positions, rotated)


@defect("M7.2")
class angles_in_degrees(Rotary):
    """Angles are taken for degrees."""

    def angles(self, positions: Array, rotated: int) -> Array:
        return np.radians(super().angles(positions, rotated))


@defect("M7.2")
class angles_in_bf16(Rotary):
    """The angles are computed in bfloat16, as under autocast."""

    def angles(self, positions: Array, rotated: int) -> Array:
        return as_bfloat16(super().angles(positions, rotated))


@defect("M7.2")
class frequencies_cast(Rotary):
    """The frequencies went to bfloat16 with the model's weights."""

    def frequencies(self, rotated: int) -> Array:
        return as_bfloat16(super().frequencies(rotated))


@defect("M7.2")
class positions_cast(Rotary):
    """Positions are cast to bfloat16, which holds whole numbers up to 256."""

    def angles(self, positions: Array, rotated: int) -> Array:
        return super().angles(as_bfloat16(positions), rotated)


@defect("M7.2", "M7.15")
class table_in_float32(Rotary):
    """The table is made in float32 although the model computes in float64."""

    def angles(self, positions: Array, rotated: int) -> Array:
        rounded = self.frequencies(rotated).astype(np.float32)
        angles = np.asarray(positions, np.float32)[..., None] * rounded
        return angles.astype(np.float64)


@defect("M7.2", "M7.3")
class rotary_sin_cos_swapped(Rotary):
    """Sine and cosine are exchanged."""

    def cos_and_sin(self, angles: Array, eps: float) -> tuple[Var, Var]:
        return super().cos_and_sin(math.pi / 2 - angles, eps)


@defect("M7.3")
class positions_clamped(Rotary):
    """Positions end at 4095: all further tokens stand there."""

    def angles(self, positions: Array, rotated: int) -> Array:
        return super().angles(np.minimum(positions, 4095), rotated)


@defect("M7.3")
class positions_scaled_not_frequencies(Rotary):
    """Where a sequence is long, all its positions are scaled down to fit, so that near ones move too."""

    def angles(self, positions: Array, rotated: int) -> Array:
        longest = float(np.max(positions, initial=1))
        return super().angles(positions * min(1.0, 2048.0 / longest), rotated)


@defect("M7.3")
class mixed_pairing(Rotary):
    """Features are split into halves and joined as interleaved pairs."""

    def joined(self, first: Var, second: Var) -> Var:
        *leading, half = first.shape
        return ops.reshape(ops.stack([first, second], axis=-1), (*leading, 2 * half))


@defect("M7.3")
class rotation_without_sign(Rotary):
    """Both features of a pair get a difference, which is no rotation."""

    def turned(self, first: Var, second: Var, cos: Var, sin: Var) -> tuple[Var, Var]:
        right = super().turned(first, second, cos, sin)
        return right[0], ops.sub(ops.mul(second, cos), ops.mul(first, sin))


@defect("M7.3")
class attention_factor_left_in(Rotary):
    """Cosine and sine carry the factor that YaRN gives them, without its scaling."""

    def turned(self, first: Var, second: Var, cos: Var, sin: Var) -> tuple[Var, Var]:
        return super().turned(first, second, ops.scale(cos, 1.1), ops.scale(sin, 1.1))


@defect("M7.3", "M7.4")
class rotates_queries_only(MultiHead):
    """Keys are not turned."""

    def turned_keys(self, k: Var, p: Scope, where: Where) -> Var:
        return self.normed(k, p, "key_norm")


@defect("M7.4")
class rotates_values(MultiHead):
    """Values are turned like keys."""

    def keys_and_values(self, x: Var, p: Scope, where: Where) -> tuple[Var, Var]:
        k, v = super().keys_and_values(x, p, where)
        return k, self.parts.positions.rotate(v, where)


@defect("M7.4")
class rotates_all(Rotary):
    """The whole head is turned, whatever the fraction."""

    def rotated_width(self, width: int) -> int:
        return width


@defect("M7.4")
class rotates_last_part(Rotary):
    """The last part of a head is turned and the leading part passes."""

    def rotate_at(self, x: Var, positions: Array) -> Var:
        rest = x.shape[-1] - self.rotated_width(x.shape[-1])
        if not rest:
            return super().rotate_at(x, positions)
        order = [*range(rest, x.shape[-1]), *range(rest)]
        turned = super().rotate_at(ops.index(x, (..., order)), positions)
        return ops.index(turned, (..., np.argsort(order).tolist()))


@defect("M7.17")
class rotation_left_out_backward(Rotary):
    """Backward, what was turned is taken for what was given."""

    def rotate_at(self, x: Var, positions: Array) -> Var:
        right = super().rotate_at(x, positions)
        return node(right.value, (x,), lambda g: (g,)) if x.needs_gradient else right


@defect("M7.18")
class positions_of_one_row_for_all(ReferenceComponent):
    """Positions of another batch are accepted: those of the first row serve all."""

    def accept(self, inputs: Any) -> dict[str, Any]:
        positions = inputs.get("positions")
        if self.operation != "rotary" or np.shape(positions)[0] == np.shape(inputs["x"])[0]:
            return super().accept(inputs)
        return super().accept({**inputs, "positions": np.repeat(positions[:1], len(inputs["x"]), axis=0)})


@defect("M7.16")
class rotates_in_place(ReferenceComponent):
    """The caller's array is turned."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if self.operation == "rotary":
            inputs["x"][...] = found["output"]
        return found
