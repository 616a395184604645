"""Attention with the right formula and wrong numbers: clamped, coarse, or with small ones left out.

They differ in one constant, which is part of the name, so that a diagnosis can say it.
"""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.judging.coarse import BRAIN, SINGLE, TENSOR_FLOAT, clamped, rounded_to
from attest.reference import ops
from attest.reference.parts.attention import Attention
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var


class _Clamped(Attention):
    limit: float

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return clamped(super().scale(scores, q, k, where), self.limit)


@defect("M1.2")
class scores_clamped_at_10(_Clamped):
    """Scaled scores are cut off at 10 on either side."""

    limit = 10.0


@defect("M1.2")
class scores_clamped_at_50(_Clamped):
    """Scaled scores are cut off at 50, so that no power overflows."""

    limit = 50.0


@defect("M1.2")
class scores_clamped_at_80(_Clamped):
    """Scaled scores are cut off at 80, where float32 still has a power."""

    limit = 80.0


class _SoftlyCapped(Attention):
    cap: float

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        x = super().scale(scores, q, k, where)
        curve = np.tanh(x.value / self.cap)
        return ops.elementwise(x, self.cap * curve, 1 - curve**2)


@defect("M1.2")
class scores_capped_softly_at_30(_SoftlyCapped):
    """Scores are bent by 30 tanh(x / 30), as models with a cap do."""

    cap = 30.0


@defect("M1.2")
class scores_capped_softly_at_50(_SoftlyCapped):
    """Scores are bent by 50 tanh(x / 50), as models with a cap do."""

    cap = 50.0


class _Coarse(Attention):
    bits: int

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        return super().scores(rounded_to(q, self.bits), rounded_to(k, self.bits), where)

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        return super().mix(rounded_to(weights, self.bits), rounded_to(v, self.bits), where)


@defect("M1.2")
class products_in_bfloat16(_Coarse):
    """What enters a product is rounded to the 8 bits of bfloat16."""

    bits = BRAIN


@defect("M1.2")
class products_in_tf32(_Coarse):
    """What enters a product is rounded to 11 bits, as a GPU does where TF32 is on."""

    bits = TENSOR_FLOAT


@defect("M1.2")
class single_precision_inside(_Coarse):
    """What enters a product is rounded to float32 whatever the dtype: seen in float64 alone."""

    bits = SINGLE


class _SmallOnesDropped(Attention):
    least: float

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        weights = super().weights_from(scores, allowed, where)
        return ops.where(weights.value >= self.least, weights, 0.0)


@defect("M1.3")
class weights_below_1e_2_dropped(_SmallOnesDropped):
    """Weights below 0.01 become zero, and the others are not scaled up."""

    least = 1e-2


@defect("M1.2")
class weights_below_1e_4_dropped(_SmallOnesDropped):
    """Weights below 0.0001 become zero."""

    least = 1e-4


class _AnotherScale(Attention):
    factor: float

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.scale(super().scale(scores, q, k, where), self.factor)


@defect("M1.2")
class scale_in_bits(_AnotherScale):
    """The powers are of two though the scores are meant for e."""

    factor = math.log(2.0)


@defect("M1.2")
class scale_off_by_a_thousandth(_AnotherScale):
    """The scale is 0.1 % too large, as a rounded constant makes it."""

    factor = 1.001
