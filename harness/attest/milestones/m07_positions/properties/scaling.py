"""M7: rotary angles that a rule slows down, so that a model reads further than it was trained to."""

from __future__ import annotations

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_shape
from attest.contract import Array
from attest.judging.cases import seeds
from attest.judging.laws import FORMULA, GRADIENTS, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.models import models
from attest.milestones.m07_positions.cases.rotary import by_pairs
from attest.milestones.m07_positions.cases.scaling import (
    RULES,
    ScaledAttentionCase,
    ScaledCase,
    scaled_attention_cases,
    scaled_cases,
)
from attest.milestones.m07_positions.checks import expect_steps, leave_out_unless_offered
from attest.milestones.m09_models_of_today.cases.language_models import LanguageModelCase
from attest.outcomes import Expected

law_holds(
    FORMULA,
    "M7.14",
    scaled_cases(),
    "rotary",
    name="scaled_angles_equal_their_formula",
    sentence="linear, yarn and llama3, with the numbers that are claimed, at near and far positions.",
)


def by_pair(case: ScaledCase, x: Array) -> Array:
    """(B, H, T, r / 2, 2): the turned features, those of a pair side by side."""
    turned = x[..., : case.rotated].astype(np.float64)[..., by_pairs(case.config)(case.rotated)]
    pairs: Array = turned.reshape(*turned.shape[:-1], -1, 2)
    return pairs


def expect_pairs(
    impl: JudgedImplementation, case: ScaledCase, which: Array, positions: Array, other: Array, what: str
) -> None:
    """These pairs at these positions are, but for the gain, what they are elsewhere without the rule."""
    if not which.any():
        return
    component, plain = case.loaded(impl), case.unscaled()
    here, there = case.at_positions(positions), plain.at_positions(other)
    seen = component(**here)["output"]
    expect_shape(seen, case.x.shape, "output")
    wanted = case.gain * plain.loaded(impl)(**there)["output"].astype(np.float64)
    bounds = [np.broadcast_to(c.output_for(i).bound, seen.shape) for c, i in ((case, here), (plain, there))]
    bound = bounds[0] + case.gain * bounds[1]
    found, right, most = (by_pair(case, x)[..., which, :] for x in (seen, wanted, bound))
    expect_close(found, Expected(right, most), what, factor=component.widening)


@verifies("M7.14")
@given(case=scaled_cases(rules=("yarn", "llama3")))
def fast_pairs_turn_as_before(impl: JudgedImplementation, case: ScaledCase) -> None:
    """Pairs that turn often over the length that was trained keep their angles."""
    positions = case.positions
    expect_pairs(impl, case, case.kept, positions, positions, "pairs that turn fast")


@verifies("M7.14")
@given(case=scaled_cases(at=("near",)))
def slow_pairs_turn_slower_by_the_factor(impl: JudgedImplementation, case: ScaledCase) -> None:
    """At rotary_factor times the position they stand where they stood without the rule."""
    far = (case.positions * case.config.rotary_factor).astype(case.positions.dtype)
    if case.config.rotary_factor % 1:
        return  # positions are whole numbers
    expect_pairs(impl, case, case.divided, far, case.positions, "pairs that turn slowly")


@verifies("M7.14", effort=0.5)
@given(case=scaled_attention_cases())
def attention_with_scaled_angles_equals_its_formula(
    impl: JudgedImplementation, case: ScaledAttentionCase
) -> None:
    """Queries and keys are turned by scaled angles alike."""
    leave_out_unless_offered(impl, case.operation)
    FORMULA.check(impl, case)


@verifies("M7.14", effort=0.3)
@given(case=models(*(f"rotary,rotary_scaling:{rule}" for rule in RULES)), cut=seeds())
def steps_turn_by_scaled_angles(impl: JudgedImplementation, case: LanguageModelCase, cut: int) -> None:
    """A language_model in steps gives the logits of the full pass."""
    leave_out_unless_offered(impl, case.operation)
    expect_steps(impl, case, cut)


@verifies("M7.17", effort=0.3)
@given(case=scaled_attention_cases())
def gradients_through_scaled_angles(impl: JudgedImplementation, case: ScaledAttentionCase) -> None:
    """A gain multiplies gradients as well."""
    leave_out_unless_offered(impl, case.operation)
    GRADIENTS.check(impl, case)
