"""M7: self-attention with positions that act inside it."""

from __future__ import annotations

from attest.judging.laws import FORMULA, GRADIENTS, REFUSALS, SIDE_EFFECTS_IN_TRAINING, law_holds
from attest.milestones.m07_positions.cases.self_attention import self_attention_cases

law_holds(
    FORMULA,
    "M7.12",
    self_attention_cases(),
    "self_attention",
    name="self_attention_equals_its_formula",
    sentence="With every kind of positions that is claimed, given, shifted, with gaps or counted from 0.",
)
law_holds(
    GRADIENTS,
    "M7.17",
    self_attention_cases(),
    "self_attention",
    name="gradients_of_attention",
    effort=0.5,
)
law_holds(
    REFUSALS,
    "M7.18",
    self_attention_cases(),
    "self_attention",
    name="self_attention_refuses_misfits",
    effort=0.3,
)
law_holds(
    SIDE_EFFECTS_IN_TRAINING,
    "M7.16",
    self_attention_cases(),
    "self_attention",
    name="self_attention_leaves_no_trace",
    effort=0.5,
)
