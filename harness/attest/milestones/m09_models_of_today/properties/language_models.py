"""M9: the decoder-only model as a whole."""

from __future__ import annotations

from attest.judging.laws import (
    ANY_LENGTH,
    DTYPE,
    FORMULA,
    GRADIENTS,
    MEMORY_LAYOUT,
    REFUSALS,
    ROW_ALONE,
    SIDE_EFFECTS_IN_TRAINING,
    STATE,
    law_holds,
    laws_hold,
)
from attest.milestones.m09_models_of_today.cases.language_models import NEWER, OLDER, language_model_cases

law_holds(
    FORMULA,
    "M9.4",
    language_model_cases(),
    "language_model",
    name="language_model_equals_its_formula",
    sentence="The logits at every real token, with every claimed option and padding where it is taken.",
)
law_holds(
    FORMULA,
    "M9.4",
    language_model_cases(wants=(OLDER, NEWER)),
    "language_model",
    name="the_models_of_two_times_equal_their_formulas",
    sentence="LayerNorm with learned positions and GELU; RMSNorm with rotary positions and a gate.",
    effort=0.5,
)
law_holds(
    GRADIENTS,
    "M9.17a",
    language_model_cases(wants=("", "", "positions:relative", "tie:true")),
    "language_model",
    name="gradients_of_the_language_model_are_right",
    effort=0.5,
)
law_holds(
    REFUSALS,
    "M9.18a",
    language_model_cases(),
    "language_model",
    name="the_language_model_refuses_other_ids",
    effort=0.25,
)
law_holds(
    SIDE_EFFECTS_IN_TRAINING,
    "M9.19a",
    language_model_cases(),
    "language_model",
    name="the_language_model_leaves_no_trace",
    effort=0.25,
)
laws_hold(
    dict.fromkeys((ANY_LENGTH, ROW_ALONE, MEMORY_LAYOUT, DTYPE, STATE), "M9.19a"),
    language_model_cases(),
    "language_model",
)
