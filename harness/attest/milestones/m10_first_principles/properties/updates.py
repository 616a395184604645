"""M10: SGD, momentum, Adam and AdamW against their formulas."""

from __future__ import annotations

import numpy as np

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedOptimizer
from attest.checks.arrays import expect, expect_close, expect_near, expect_same_bits
from attest.contract import Arrays, float_dtype
from attest.judging.named import ONCE, named
from attest.judging.property import given, verifies
from attest.milestones.m10_first_principles.cases.updates import LARGE_UPDATE, UpdateCase, update_cases
from attest.outcomes import Expected
from attest.reference.assembly import Parts
from attest.reference.oracle import EPSILON
from attest.reference.training.updates import UPDATES, Memory

# A running sum that fades by 0.9 holds the roundings of about 1 / (1 - 0.9) = 10 steps, one that fades more
# slowly those of all steps: 40 at most. Adam has two of them, each with 3 roundings a step, of which the root
# halves the second: 30 + 60, then a root, two divisions and a product: below 128 in all.
ROUNDINGS = 128


def follow(optimizer: JudgedOptimizer, operation: str, case: UpdateCase, parameters: Arrays) -> None:
    """Each step from where the optimiser stands, so that the roundings of the parameters do not add up."""
    rule, memory, eps = UPDATES[operation](Parts(case.config)), Memory(), EPSILON[case.dtype]
    before = dict(parameters)
    peak = {name: np.ones(x.shape) for name, x in parameters.items()}  # the longest direction so far
    for step, rate in enumerate(case.rates):
        gradients = case.gradients(step)
        wanted = rule.step(before, memory, gradients, rate)
        optimizer.step(gradients, rate)
        after = optimizer.parameters()
        for name, value in wanted.items():
            expect(name in after, f"{operation} has no {name}")
            peak[name] = np.maximum(peak[name], np.abs(before[name] - value) / rate)
            allowed = 16 * eps * np.abs(value) + ROUNDINGS * eps * rate * peak[name]
            what = f"{name} after step {step + 1} of {operation}"
            expect_close(after[name], Expected(value, allowed), what)
        before = dict(after)


def followed(impl: JudgedImplementation, operation: str, case: UpdateCase) -> JudgedOptimizer:
    """An optimiser that went the case's way."""
    parameters = case.parameters()
    optimizer = JudgedOptimizer(impl, case.config, parameters, operation=operation)
    follow(optimizer, operation, case, parameters)
    return optimizer


@verifies("M10.4", effort=0.3)
@given(case=update_cases())
def sgd_and_momentum_follow_their_formulas(impl: JudgedImplementation, case: UpdateCase) -> None:
    """Twenty steps, each as it should be; momentum where it is offered."""
    followed(impl, "sgd", case)
    if impl.offers("momentum"):
        followed(impl, "momentum", case)


@verifies("M10.4", effort=ONCE)
@given(case=named(LARGE_UPDATE))
def sgd_and_momentum_follow_their_formulas_at_length(impl: JudgedImplementation, case: UpdateCase) -> None:
    """Forty steps of 25 arrays, the longest of 780 numbers."""
    sgd_and_momentum_follow_their_formulas(impl, case)


@verifies("M10.4a", effort=ONCE)
@given(case=named(LARGE_UPDATE))
def adam_follows_its_formula_at_length(impl: JudgedImplementation, case: UpdateCase) -> None:
    """Forty steps of 25 arrays, the longest of 780 numbers."""
    followed(impl, "adam", case)


@verifies("M10.4b", effort=ONCE)
@given(case=named(LARGE_UPDATE))
def adamw_follows_its_formula_at_length(impl: JudgedImplementation, case: UpdateCase) -> None:
    """Forty steps of 25 arrays, the longest of 780 numbers."""
    followed(impl, "adamw", case)


@verifies("M10.4a", effort=0.3)
@given(case=update_cases())
def adam_follows_its_formula(impl: JudgedImplementation, case: UpdateCase) -> None:
    """Both means corrected from the first step on, eps outside the root; after load a new beginning."""
    optimizer = followed(impl, "adam", case)
    parameters = case.parameters(5)
    optimizer.load(parameters)
    follow(optimizer, "adam", case.but(seed=case.seed + 1, count=3), parameters)


@verifies("M10.4a", effort=0.3)
@given(case=update_cases())
def the_first_step_of_adam_is_as_long_as_the_rate(impl: JudgedImplementation, case: UpdateCase) -> None:
    """Whatever the size of the gradient: |g| / (|g| + eps) of the rate, against its sign."""
    parameters, gradients, rate = case.parameters(), case.gradients(0), case.rates[0]
    optimizer = JudgedOptimizer(impl, case.config, parameters, operation="adam")
    optimizer.step(gradients, rate)
    for name, after in optimizer.parameters().items():
        g = gradients[name].astype(np.float64)
        wanted = parameters[name] - rate * g / (np.abs(g) + case.eps)
        tolerance = EPSILON[case.dtype] * (16 * 2.0 + 64 * rate)  # parameters are at most 2
        expect_near(after, wanted, tolerance, f"{name} after the first step")


@verifies("M10.4b", effort=0.3)
@given(case=update_cases())
def adamw_follows_its_formula(impl: JudgedImplementation, case: UpdateCase) -> None:
    """Adam, and a decay beside it that only arrays of two axes have."""
    followed(impl, "adamw", case)


@verifies("M10.4b", effort=0.3)
@given(case=update_cases())
def without_a_gradient_only_matrices_decay(impl: JudgedImplementation, case: UpdateCase) -> None:
    """Zero gradients: a matrix shrinks by 1 - rate * decay at each step, biases and gains stay to the bit."""
    parameters = case.parameters()
    optimizer = JudgedOptimizer(impl, case.config, parameters, operation="adamw")
    zeros = {name: np.zeros(x.shape, float_dtype(case.dtype)) for name, x in parameters.items()}
    shrunk = 1.0
    for rate in case.rates[:3]:
        optimizer.step(zeros, rate)
        shrunk *= 1 - rate * case.decay
    for name, after in optimizer.parameters().items():
        if parameters[name].ndim < 2:
            expect_same_bits(after, parameters[name], f"{name} after zero gradients")
        else:
            wanted = parameters[name].astype(np.float64) * shrunk
            expect_near(after, wanted, 32 * EPSILON[case.dtype], f"{name} after zero gradients")
