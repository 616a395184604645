"""bfloat16 and TF32 as numpy can hold them: bits in an unsigned integer, and rounded float32 numbers."""

from __future__ import annotations

import numpy as np

from attest.contract import Array

NAN = np.uint16(0x7FFF)  # what a GPU writes for any nan


def widened(bits: Array) -> Array:
    """The float32 numbers that these bfloat16 bits stand for, exactly."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def rounded(x: Array) -> Array:
    """The bits of float32 numbers rounded to the nearest bfloat16, ties to even, as cvt.rn.bf16.f32 does."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    nearest = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), NAN, nearest)


def truncated(x: Array) -> Array:
    """The bits of float32 numbers cut off towards zero, as cvt.rz.bf16.f32 does."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return np.where(np.isnan(x), NAN, (bits >> 16).astype(np.uint16))


def as_tf32(x: Array) -> Array:
    """float32 numbers rounded to the 11 significant bits of TF32, ties away from zero (cvt.rna.tf32.f32)."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    nearest = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), nearest, x).astype(np.float32)
