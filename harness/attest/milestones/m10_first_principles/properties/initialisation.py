"""M10: how weights begin. Counts against exact binomial probabilities: see `attest.checks.statistics`."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_finite, expect_same_bits, expect_shape
from attest.checks.side_effects import undisturbed
from attest.checks.statistics import expect_share
from attest.contract import Array
from attest.evidence import note_case
from attest.judging.property import verifies

OUTPUTS, INPUTS = 96, 384  # far from equal, so that one fan is not taken for the other


def drawn(impl: JudgedImplementation, operation: str, seed: int, shape: tuple[int, int]) -> Array:
    """A weight, once it has the right shape."""
    weight: Array = undisturbed(operation, lambda: impl.call(operation, *shape, seed)).astype(np.float64)
    expect_shape(weight, shape, f"the weight of {operation}")
    expect_finite(weight, f"the weight of {operation}")
    return weight


def expect_seeded(impl: JudgedImplementation, operation: str, weight: Array) -> None:
    """The same seed gives the same weight, another seed another, and no two rows are equal."""
    shape = (OUTPUTS, INPUTS)
    expect_same_bits(drawn(impl, operation, 0, shape), weight, f"the weight of {operation} for seed 0 again")
    other = drawn(impl, operation, 1, shape)
    expect(bool((other != weight).any()), f"seeds 0 and 1 of {operation} give the same weight")
    expect(len(np.unique(weight, axis=0)) == OUTPUTS, f"two rows of the weight of {operation} are equal")


@verifies("M10.5")
def xavier_is_uniform_within_its_limit(impl: JudgedImplementation) -> None:
    """Within sqrt(6 / (inputs + outputs)), half of it in the inner half, a twentieth in the outer one."""
    note_case(f"xavier outputs={OUTPUTS} inputs={INPUTS} seeds 0, 1", "statistics")
    weight, limit = drawn(impl, "xavier", 0, (OUTPUTS, INPUTS)), math.sqrt(6 / (OUTPUTS + INPUTS))
    top = float(np.abs(weight).max())
    expect(top <= limit * (1 + 1e-6), f"an entry of xavier is {top:.6g}, should be at most {limit:.6g}")
    size = np.abs(weight)
    expect_share(int((weight > 0).sum()), weight.size, 0.5, "entries of xavier above 0")
    expect_share(int((size < limit / 2).sum()), weight.size, 0.5, "entries of xavier in the inner half")
    expect_share(int((size > 0.95 * limit).sum()), weight.size, 0.05, "entries of xavier at the limit")
    expect_seeded(impl, "xavier", weight)


@verifies("M10.5")
def he_is_normal_with_its_deviation(impl: JudgedImplementation) -> None:
    """Deviation sqrt(2 / inputs): half within 0.674 of it, a twentieth beyond 1.96; where it is offered."""
    if not impl.offers("he"):
        return
    note_case(f"he outputs={OUTPUTS} inputs={INPUTS} seeds 0, 1", "statistics")
    weight, normal = drawn(impl, "he", 0, (OUTPUTS, INPUTS)), NormalDist(0, math.sqrt(2 / INPUTS))
    size = np.abs(weight)
    middle, far = normal.inv_cdf(0.75), normal.inv_cdf(0.975)
    expect_share(int((weight > 0).sum()), weight.size, 0.5, "entries of he above 0")
    expect_share(int((size < middle).sum()), weight.size, 0.5, "entries of he in the middle half")
    expect_share(int((size > far).sum()), weight.size, 0.05, "entries of he in the tails")
    expect_seeded(impl, "he", weight)
