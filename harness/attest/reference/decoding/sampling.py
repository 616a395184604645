"""From logits to what may come next, and from log-probability to score. Plain arrays, no tape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from attest.reference.parts.part import Part, function
from attest.reference.tape import Array

if TYPE_CHECKING:
    from attest.reference.assembly import Parts

GREEDY_BELOW = 1e-6


class Sampling(Part):
    """Temperature, then top-k, then top-p."""

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        """(B, V) probabilities. Temperatures below 1e-6 put everything on the first of the best."""
        logits = np.asarray(logits, dtype=np.float64)
        if temperature < GREEDY_BELOW:
            return self.best_only(logits)
        tempered = self.temper(logits, temperature)
        if top_k is not None:
            tempered = np.where(self.keep_top_k(tempered, top_k), tempered, -np.inf)
        probabilities = normalised(tempered)
        if top_p is not None:
            probabilities = np.where(self.keep_top_p(probabilities, top_p), probabilities, 0.0)
            probabilities = probabilities / probabilities.sum(axis=-1, keepdims=True)
        return probabilities

    def best_only(self, logits: Array) -> Array:
        chosen: Array = np.arange(logits.shape[-1]) == logits.argmax(axis=-1)[:, None]
        return chosen.astype(np.float64)

    def temper(self, logits: Array, temperature: float) -> Array:
        """The maximum is taken out first, so that a small temperature cannot overflow to nan."""
        tempered: Array = (logits - logits.max(axis=-1, keepdims=True)) / temperature
        return tempered

    def keep_top_k(self, logits: Array, top_k: int) -> Array:
        """True for the k largest; of equal ones the lowest ids."""
        keep: Array = ranks(logits) < top_k
        return keep

    def keep_top_p(self, probabilities: Array, top_p: float) -> Array:
        """True for the likeliest tokens up to and including the one that reaches top_p."""
        if top_p >= 1.0:
            return np.ones(probabilities.shape, dtype=bool)
        order = np.argsort(-probabilities, axis=-1, kind="stable")
        sorted_p = np.take_along_axis(probabilities, order, axis=-1)
        before = np.cumsum(sorted_p, axis=-1) - sorted_p
        kept: Array = np.take_along_axis(before, np.argsort(order, axis=-1), axis=-1) < top_p
        return kept

    def check_sampling(self, temperature: float, top_k: int | None, top_p: float | None) -> None:
        if not (temperature >= 0.0 and math.isfinite(temperature)):
            raise ValueError(f"temperature={temperature} must be finite and at least 0; use 0 for greedy")
        if top_k is not None and (isinstance(top_k, bool) or int(top_k) != top_k or top_k < 1):
            raise ValueError(f"top_k={top_k} must be an integer of at least 1; use None to keep all")
        if top_p is not None and not 0.0 < top_p <= 1.0:
            raise ValueError(f"top_p={top_p} must be above 0 and at most 1; use None to keep all")

    def check_logits(self, logits: Array) -> None:
        """One row of real numbers per sequence, whose largest is finite."""
        if logits.ndim != 2 or not logits.shape[-1] or logits.dtype.kind != "f":
            raise ValueError(f"logits shape={logits.shape} dtype={logits.dtype}: give real (B, V)")
        if not np.isfinite(logits.max(axis=-1)).all():
            raise ValueError("logits=nan or infinite at their maximum give no distribution")


class Ranking(Part):
    """How finished hypotheses of different lengths compare."""

    def length_penalty(self, length: int, alpha: float) -> float:
        """((5 + n) / 6)^alpha over the tokens returned, EOS included."""
        return float(((5.0 + length) / 6.0) ** alpha)

    def score(self, log_probability: float, length: int, alpha: float) -> float:
        return log_probability / self.length_penalty(length, alpha)


@function("next_token_distribution")
def _next_token_distribution(
    parts: Parts,
    logits: Array,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Array:
    parts.sampling.check_sampling(temperature, top_k, top_p)
    logits = np.asarray(logits)
    parts.sampling.check_logits(logits)
    with np.errstate(all="ignore"):
        p = parts.sampling.next_token_distribution(logits, temperature, top_k, top_p)
    return p.astype(logits.dtype if logits.dtype == np.float64 else np.float32)


def normalised(logits: Array) -> Array:
    """Softmax over the last axis."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: Array = raised / raised.sum(axis=-1, keepdims=True)
    return probabilities


def log_normalised(logits: Array) -> Array:
    """Log-softmax over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    values: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return values


def ranks(values: Array) -> Array:
    """0 for the largest of a row, 1 for the next; equal values in the order of their ids."""
    return np.argsort(np.argsort(-values, axis=-1, kind="stable"), axis=-1, kind="stable")
