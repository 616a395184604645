"""Numbers as faulty code holds them: rounded to fewer bits, clamped, cut off. Of these, defects are made."""

from __future__ import annotations

import numpy as np

from attest.reference import ops
from attest.reference.tape import Array, Var

SINGLE, TENSOR_FLOAT, HALF, BRAIN = 24, 11, 11, 8  # significant bits of float32, TF32, float16 and bfloat16


def to_bits(x: Array, bits: int) -> Array:
    """Rounded to so many significant bits, ties to even; the range of exponents is kept."""
    mantissa, exponent = np.frexp(x)
    kept: Array = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    return np.where(np.isfinite(x), kept, x)


def rounded_to(x: Var, bits: int) -> Var:
    """The gradient passes as if nothing were rounded."""
    return ops.elementwise(x, to_bits(x.value, bits), np.ones(x.shape))


def clamped(x: Var, limit: float) -> Var:
    """Between -limit and limit; no gradient passes beyond."""
    return ops.elementwise(x, np.clip(x.value, -limit, limit), (np.abs(x.value) < limit).astype(float))
