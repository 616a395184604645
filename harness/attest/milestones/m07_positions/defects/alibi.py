"""Defects of ALiBi: slopes (H), and the bias (H, B, T, S) that they give."""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.parts.relative_positions import Alibi
from attest.reference.tape import Array


@defect("M7.8")
class slopes_not_interpolated(Alibi):
    """2^(-8i/H) for every H, also where H is no power of two."""

    def slopes(self, heads: int) -> Array:
        slopes: Array = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
        return slopes


@defect("M7.8")
class slope_exponent_off_by_one(Alibi):
    """The slopes begin with 2^0."""

    def slopes(self, heads: int) -> Array:
        n = 2 ** math.floor(math.log2(heads))
        return super().slopes(heads) * float(2.0 ** (8.0 / n))


@defect("M7.8")
class slopes_reversed(Alibi):
    """The steepest slope comes last."""

    def slopes(self, heads: int) -> Array:
        return np.flip(super().slopes(heads))
