"""What M7 asks in numbers of its own."""

from __future__ import annotations

import math

import numpy as np

from attest.checks.arrays import expect, expect_shape
from attest.contract import Array


def slopes_of(heads: int) -> Array:
    """(H): the slopes by recursion, as the paper's code makes them; the reference has closed forms.

    https://github.com/ofirpress/attention_with_linear_biases, get_slopes
    """
    exponent = math.log2(heads)
    if exponent.is_integer():
        ratio = 2.0 ** (-8 / heads)
        return np.array([ratio ** (i + 1) for i in range(heads)])
    below = 2 ** math.floor(exponent)
    return np.concatenate([slopes_of(below), slopes_of(2 * below)[0::2][: heads - below]])


def expect_buckets(seen: Array, wanted: Array, offsets: Array) -> None:
    """Whole numbers, each the bucket of its offset."""
    expect_shape(seen, wanted.shape, "relative_buckets")
    wrong = np.argwhere(seen != wanted)
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        told = f"the bucket of offset {int(offsets[at])} is {seen[at]}, should be {int(wanted[at])}"
        expect(False, f"{told} ({len(wrong)} of {seen.size} are wrong)")
