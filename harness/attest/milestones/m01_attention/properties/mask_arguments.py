"""M1: what the functions that make masks are given and cannot be meant."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_mask, expect_refused
from attest.evidence import note_case
from attest.judging.property import verifies

SIZE = 4
IDS = np.array([[5, 6, 0, 0], [5, 0, 0, 0]], np.int64)
LENGTHS = {
    "a negative length": np.array([2, -1], np.int64),
    "a length beyond the size": np.array([SIZE + 1, 2], np.int64),
    "lengths that are not whole": np.array([2.5, 1.0], np.float32),
    "two axes of lengths": np.array([[2, 1]], np.int64),
    "a single length without an axis": np.array(2, np.int64),
}
ROWS = {"a single axis of ids": IDS[0], "three axes of ids": IDS[None]}
SIZES = {"a negative number of queries": (-1, SIZE), "a negative number of keys": (SIZE, -1)}


@verifies("M1.14c")
def masks_of_impossible_lengths_are_refused(impl: JudgedImplementation) -> None:
    """Lengths, ids and sizes for which there is no mask raise an exception."""
    _expect_refused(impl, "length_mask", ((what, (x, SIZE)) for what, x in LENGTHS.items()))
    _expect_refused(impl, "padding_mask", ((what, (x, 0)) for what, x in ROWS.items()))
    _expect_refused(impl, "causal_mask", SIZES.items())


@verifies("M1.14c")
def an_empty_mask_is_a_mask(impl: JudgedImplementation) -> None:
    """No queries and no keys give a mask without rows or columns; they are lengths like any other."""
    if not impl.offers("causal_mask"):
        return
    for T, S in ((0, SIZE), (0, 0)):
        note_case(f"causal_mask of {T} queries and {S} keys", "empty")
        expect_mask(impl.call("causal_mask", T, S), np.zeros((T, S), bool), f"causal_mask({T}, {S})")


def _expect_refused(
    impl: JudgedImplementation, operation: str, wrong: Iterable[tuple[str, tuple[Any, ...]]]
) -> None:
    """Each of these arguments raises, where the operation is offered."""
    if not impl.offers(operation):
        return
    function = getattr(impl.implementation, operation)
    for what, arguments in wrong:
        note_case(f"{operation} of {what}", "refusal")
        expect_refused(partial(function, *arguments), f"{operation} of {what}")
