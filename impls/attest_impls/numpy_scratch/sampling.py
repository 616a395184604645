"""From logits to the next token: temperature, then top-k, then top-p, then a draw.

Shapes: B rows, V vocabulary.
"""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Array

from .arguments import is_integer, is_number, require
from .attention import Softmax
from .layers import Random

GREEDY_BELOW = 1e-6  # temperatures that are as good as zero


def next_token_distribution(
    logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Array:
    """Probabilities (B, V), computed in float64. Temperature 0 leaves the likeliest token alone.

    top_k keeps the k likeliest. top_p keeps the smallest set of the likeliest whose probability reaches p: a
    token stays if the sum before it is below p, so the one that crosses p stays.
    """
    check_sampling(temperature, top_k, top_p)
    given = checked_logits(logits)
    wide = given.astype(np.float64)
    if temperature < GREEDY_BELOW:
        certain = np.zeros_like(given)
        np.put_along_axis(certain, wide.argmax(axis=-1)[:, None], 1, axis=-1)  # of equals the first
        return certain
    # The maximum goes first, so that division by a small temperature cannot overflow.
    scaled = (wide - wide.max(axis=-1, keepdims=True)) / temperature
    order = np.argsort(-scaled, axis=-1, kind="stable")  # (B, V), likeliest first
    keep = np.arange(wide.shape[-1]) < (wide.shape[-1] if top_k is None else top_k)  # (V,)
    p, _ = Softmax().forward(np.take_along_axis(scaled, order, axis=-1), keep)
    if top_p is not None and top_p < 1:
        p = np.where(p.cumsum(axis=-1) - p < top_p, p, 0)
        p /= p.sum(axis=-1, keepdims=True)
    probabilities = np.empty_like(p)
    np.put_along_axis(probabilities, order, p, axis=-1)
    return probabilities.astype(given.dtype)


def drawn(probabilities: Array, rng: Random) -> Array:
    """(B,): one token of each row, by the inverse of the distribution function."""
    cumulative = probabilities.cumsum(axis=-1, dtype=np.float64)  # (B, V)
    total = cumulative[:, -1:]
    # A draw is at most 1 - 2^-53, so that its product with the total rounds to less than the total:
    # some entry is above it, and the first that is belongs to a token with a probability above zero.
    above = cumulative > rng.random((len(cumulative), 1)) * total
    token: Array = above.argmax(axis=-1)
    return token


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Refuse what is no temperature and no limit; NaN passes every comparison that is not written for it."""
    good = is_number(temperature) and temperature >= 0
    require(good, "temperature", temperature, "is not a finite number from 0", "give 0 for greedy")
    good = top_k is None or (is_integer(top_k) and top_k >= 1)
    require(good, "top_k", top_k, "is not a positive integer", "give None to keep all tokens")
    good = top_p is None or (is_number(top_p) and 0 < top_p <= 1)
    require(good, "top_p", top_p, "is outside (0, 1]", "give None to keep all tokens")


def checked_logits(logits: Array) -> Array:
    """(B, V) of real numbers whose largest is finite."""
    array = np.asarray(logits)
    good = array.ndim == 2 and array.shape[1] > 0 and array.dtype.kind == "f"
    require(good, "logits.shape", array.shape, "is not (B, V) of floats", "give those of the last position")
    largest = float(array.max()) if array.size else 0.0
    finite = math.isfinite(largest) and bool(np.isfinite(array.max(axis=-1)).all())
    require(finite, "logits", largest, "is their maximum and not finite", "look for the cause upstream")
    return array
