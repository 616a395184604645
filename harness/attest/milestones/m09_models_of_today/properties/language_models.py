"""M9: the decoder-only model as a whole."""

from __future__ import annotations

from attest.boundary import JudgedImplementation
from attest.judging.laws import FORMULA, law_holds
from attest.judging.named import ONCE, named
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.language_models import (
    LONG_TEXT,
    NEWER,
    OLDER,
    LanguageModelCase,
    language_model_cases,
)
from attest.milestones.m09_models_of_today.properties.model_laws import Criteria, model_laws_hold

model_laws_hold(
    "language_model",
    language_model_cases(wants=("", "", "tie:true")),
    Criteria(formula="M9.4", rows="M9.19a", gradients="M9.17a", refusals="M9.18a", calls="M9.19a"),
    sentence="The logits at every real token, with every claimed option and padding where it is taken.",
    gradient_cases=language_model_cases(wants=("", "", "positions:relative", "tie:true")),
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


@verifies("M9.4", effort=ONCE)
@given(case=named(LONG_TEXT))
def a_long_text_has_a_row_for_each_position(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """A text of 1100 tokens, whose learned positions go on to the end of their table."""
    FORMULA.check(impl, case)
