"""Counts against a probability: an exact binomial test, its result written as a normal z.

A count is judged by its exact two-sided tail probability, times the number of counts a whole run may judge.
The z printed is the one a single normal variable would need to be as surprising. With |z| below 6.2 a whole
run refuses a correct implementation with a probability below 6e-10, whatever the sample sizes: the normal
approximation alone would be out by a factor of five in the tail of a rare event.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from attest.contract import Array
from attest.evidence import current
from attest.outcomes import Violation

LIMIT = 6.2
COUNTS_IN_A_RUN = 128
_SMALLEST = 1e-300  # below it the inverse of the normal distribution has no digits left


def upper_tail(count: int, trials: int, share: float) -> float:
    """P(X >= count) for a binomial X, summed from its exact terms."""
    if count <= 0:
        return 1.0
    if count > trials or share <= 0.0:
        return 0.0
    if share >= 1.0:
        return 1.0
    ks: Array = np.arange(count, trials)
    ratios = (trials - ks) / (ks + 1.0) * (share / (1.0 - share))  # term k+1 over term k
    logs = _log_term(count, trials, share) + np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    return min(1.0, float(np.sum(np.exp(np.maximum(logs, -800.0)))))


def two_sided_tail(count: int, trials: int, share: float) -> float:
    """Twice the smaller of both tails, at most 1."""
    above = upper_tail(count, trials, share)
    below = upper_tail(trials - count, trials, 1.0 - share)
    return min(1.0, 2.0 * min(above, below))


def binomial_z(count: int, trials: int, share: float) -> float:
    """How surprising a count is among all counts of a run, as a signed normal z; 0 where it is not."""
    tail = min(1.0, COUNTS_IN_A_RUN * two_sided_tail(count, trials, share))
    z = -NormalDist().inv_cdf(max(tail / 2.0, _SMALLEST))
    return math.copysign(max(z, 0.0), count - trials * share)


def false_alarm_rate(limit: float = LIMIT) -> float:
    """The largest probability with which a correct implementation is refused in a whole run."""
    return 2.0 * NormalDist().cdf(-limit)


def expect_share(count: int, trials: int, share: float, what: str) -> None:
    """`count` of `trials` independent events that each have probability `share`."""
    z = binomial_z(count, trials, share)
    ratio = abs(z) / LIMIT
    current().saw(ratio)
    if not ratio < 1.0:
        seen = count / trials if trials else 0.0
        raise Violation(
            f"{what}: {count} of {trials}, a share of {seen:.4g}, should be {share:.4g} "
            f"(z = {z:.3g}, allowed below {LIMIT:g})",
            ratio=ratio,
        )


def _log_term(count: int, trials: int, share: float) -> float:
    """Log of P(X = count)."""
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return ways + count * math.log(share) + (trials - count) * math.log1p(-share)
