"""Maps of multi-head attention with the right formula and products in fewer bits than the dtype has."""

from __future__ import annotations

from attest.judging.catalogue import defect
from attest.judging.coarse import BRAIN, TENSOR_FLOAT, rounded_to
from attest.reference.parts.linear import Linear
from attest.reference.scope import Scope
from attest.reference.tape import Var


class _Coarse(Linear):
    bits: int

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        weight = f"{p.prefix}{name}.weight"
        coarse = {**p.values, weight: rounded_to(p.values[weight], self.bits)}
        return super().__call__(rounded_to(x, self.bits), Scope(coarse, p.prefix), name)


@defect("M2.4", "M2.6", "M2.12")
class maps_in_bfloat16(_Coarse):
    """The maps multiply in bfloat16, as under autocast: input and weight are rounded to 8 bits."""

    bits = BRAIN


@defect("M2.4", "M2.6", "M2.12")
class maps_in_tf32(_Coarse):
    """The maps multiply in TF32, as on a GPU that may: input and weight are rounded to 11 bits."""

    bits = TENSOR_FLOAT
