"""Activations with the right formula and wrong numbers: clamped, or rounded to fewer bits."""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.judging.coarse import BRAIN, SINGLE, TENSOR_FLOAT, clamped, rounded_to
from attest.reference import ops
from attest.reference.parts.feed_forward import FeedForward, Gelu, Relu
from attest.reference.scope import Scope
from attest.reference.tape import Var


@defect("M3.1")
class relu_ends_at_6(Relu):
    """min(6, max(0, x)), as small networks for telephones have it."""

    def __call__(self, x: Var) -> Var:
        return clamped(super().__call__(x), 6.0)


@defect("M3.1")
class gelu_is_cut_at_3(Gelu):
    """Below -3 the result is exactly zero and above 3 exactly x."""

    def __call__(self, x: Var) -> Var:
        y = super().__call__(x)
        y = ops.where(np.abs(x.value) < 3.0, y, 0.0)
        return ops.add(y, ops.where(x.value >= 3.0, x, 0.0))


class _Coarse(FeedForward):
    bits: int

    def __call__(self, x: Var, p: Scope) -> Var:
        return super().__call__(rounded_to(x, self.bits), p)


@defect("M3.1")
class network_reads_bfloat16(_Coarse):
    """The input is rounded to the 8 bits of bfloat16."""

    bits = BRAIN


@defect("M3.1")
class network_reads_tf32(_Coarse):
    """The input is rounded to 11 bits, as a GPU does where TF32 is on."""

    bits = TENSOR_FLOAT


@defect("M3.1")
class network_reads_single_precision(_Coarse):
    """The input is rounded to float32 whatever the dtype: seen in float64 alone."""

    bits = SINGLE
