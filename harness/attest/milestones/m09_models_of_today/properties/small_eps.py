"""M9: norms add the eps they were given, a small one too, where what they read is small enough to show it."""

from __future__ import annotations

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.encoders import EncoderCase, encoder_cases
from attest.milestones.m09_models_of_today.cases.language_models import (
    LanguageModelCase,
    language_model_cases,
)
from attest.outcomes import NotClaimed

SMALL = ("norm_eps:1e-12",)  # of BERT; what is drawn elsewhere is 1e-6 and more


@verifies("M9.4", effort=0.25)
@given(case=language_model_cases(wants=SMALL))
def a_language_model_adds_a_small_eps(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """With eps of 1e-12 and norms that read numbers around 0.001, the logits are those of the formula."""
    expect_eps(impl, case)


@verifies("M9.10", effort=0.25)
@given(case=encoder_cases(wants=SMALL))
def a_masked_language_model_adds_a_small_eps(impl: JudgedImplementation, case: EncoderCase) -> None:
    """With eps of 1e-12 and norms that read numbers around 0.001, the logits are those of the formula."""
    expect_eps(impl, case)


def expect_eps(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """In the most exact dtype: float16 has no number below 1e-7."""
    if case.fixed or impl.sharpest == "float16":
        raise NotClaimed("one config, or float16 alone")
    case = case.sharpest(impl)
    parameters = case.whispering()
    wanted = case.output_for(parameters=parameters)
    model = case.loaded(impl, parameters)
    seen = model(**case.inputs)["logits"]
    settled = case.specified(seen, wanted.value.astype(seen.dtype))
    expect_close(settled, wanted, "logits of a model whose norms read little", factor=model.widening)
