"""Correct but unusual positions."""

from __future__ import annotations

from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.parts.relative_positions import Rotary
from attest.reference.tape import Var


@variant("M7")
class rotary_by_rotate_half(Rotary):
    """x cos + rotate_half(x) sin with a table in which each frequency stands twice."""

    def turned(self, first: Var, second: Var, cos: Var, sin: Var) -> tuple[Var, Var]:
        x, turned = ops.concat([first, second]), ops.concat([ops.scale(second, -1.0), first])
        half = first.shape[-1]
        both = ops.add(ops.mul(x, ops.concat([cos, cos])), ops.mul(turned, ops.concat([sin, sin])))
        return ops.columns(both, 0, half), ops.columns(both, half, 2 * half)
