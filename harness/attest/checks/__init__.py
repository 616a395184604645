"""Assertions that properties are made of. The general ones are here; each topic has its module."""

from attest.checks.arrays import (
    expect,
    expect_close,
    expect_finite,
    expect_near,
    expect_same_bits,
    expect_shape,
)

__all__ = ["expect", "expect_close", "expect_finite", "expect_near", "expect_same_bits", "expect_shape"]
