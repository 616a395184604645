"""M7: rotary positions by themselves."""

from __future__ import annotations

from attest.judging.laws import FORMULA, GRADIENTS, REFUSALS, SIDE_EFFECTS, law_holds
from attest.milestones.m07_positions.cases.rotary import rotary_cases

law_holds(
    FORMULA,
    "M7.2",
    rotary_cases(),
    "rotary",
    name="rotary_equals_its_formula",
    sentence="Pairs turned by position times base^(-2i/r), in both pairings, at near and far positions.",
)
law_holds(GRADIENTS, "M7.17", rotary_cases(), "rotary", name="gradients_through_the_rotation", effort=0.5)
law_holds(REFUSALS, "M7.18", rotary_cases(), "rotary", name="rotary_refuses_what_does_not_fit", effort=0.3)
law_holds(SIDE_EFFECTS, "M7.16", rotary_cases(), "rotary", name="rotary_leaves_no_trace", effort=0.5)
