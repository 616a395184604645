"""M9: the decoder-only model as a whole."""

from __future__ import annotations

from attest.judging.laws import FORMULA, law_holds
from attest.milestones.m09_models_of_today.cases.language_models import language_model_cases

law_holds(
    FORMULA,
    "M9.4",
    language_model_cases(),
    "language_model",
    name="language_model_equals_its_formula",
    sentence="The logits at every real token, with every claimed option and padding where it is taken.",
)
