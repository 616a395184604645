"""Calls of attention whose arguments do not fit together."""

from __future__ import annotations

import numpy as np

from attest.contract import Array

# These have one reading: the array repeated, or an empty sum. The others have no right result.
REPEATED = (
    "a batch of 1 in k and v only",
    "a batch of 1 in v only",
    "one head in v, three in q and k",
    "no batch axis in k and v",
    "a mask of rank 4 for inputs of rank 3",
    "no keys",
)


def misfits(dtype: str) -> dict[str, tuple[str, dict[str, Array]]]:
    """What is wrong: the argument at fault, and the inputs."""
    rng = np.random.default_rng(0)

    def x(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float64 if dtype == "float64" else np.float32)

    def yes(*shape: int) -> Array:
        return np.ones(shape, bool)

    q, k, v = x(2, 3, 4), x(2, 5, 4), x(2, 5, 6)
    right = {"q": q, "k": k, "v": v}
    heads = {"q": x(2, 3, 3, 4), "k": x(2, 3, 5, 4), "v": x(2, 3, 5, 6)}
    return {
        "q of rank 1": ("q", {**right, "q": x(4)}),
        "k of rank 1": ("k", {**right, "k": x(4)}),
        "v of rank 1": ("v", {**right, "v": x(5)}),
        "q of width 5 and k of width 4": ("k", {**right, "q": x(2, 3, 5)}),
        "q of width 1 and k of width 4": ("k", {**right, "q": x(2, 3, 1)}),
        "k of width 1 and q of width 4": ("k", {**right, "k": x(2, 5, 1)}),
        "a batch of 2 in q and 3 in k": ("k", {**right, "k": x(3, 5, 4), "v": x(3, 5, 6)}),
        "a batch of 1 in k and v only": ("k", {**right, "k": x(1, 5, 4), "v": x(1, 5, 6)}),
        "a batch of 1 in v only": ("v", {**right, "v": x(1, 5, 6)}),
        "one head in v, three in q and k": ("v", {**heads, "v": x(2, 1, 5, 6)}),
        "no batch axis in k and v": ("k", {**right, "k": x(5, 4), "v": x(5, 6)}),
        "k of length 5 and v of length 4": ("v", {**right, "v": x(2, 4, 6)}),
        "k of length 5 and v of length 1": ("v", {**right, "v": x(2, 1, 6)}),
        "k of length 1 and v of length 5": ("v", {**right, "k": x(2, 1, 4)}),
        "a mask for 4 keys out of 5": ("mask", {**right, "mask": yes(2, 3, 4)}),
        "a mask for 6 keys out of 5": ("mask", {**right, "mask": yes(2, 1, 6)}),
        "a mask for a batch of 3": ("mask", {**right, "mask": yes(3, 3, 5)}),
        "a mask for 2 queries out of 3": ("mask", {**right, "mask": yes(2, 2, 5)}),
        "a mask (B, S) without a query axis": ("mask", {**right, "mask": yes(2, 5)}),
        "a mask of rank 4 for inputs of rank 3": ("mask", {**right, "mask": yes(2, 2, 3, 5)}),
        "no keys": ("k", {**right, "k": x(2, 0, 4), "v": x(2, 0, 6)}),
    }
