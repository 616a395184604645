"""M9: weights that are loaded are the weights that are used."""

from __future__ import annotations

import tempfile
from functools import partial

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.boundary.training import JudgedTrainer
from attest.checks.arrays import expect_close, expect_refused, expect_same_bits
from attest.contract import DECODER_ONLY, Arrays
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.language_models import (
    LanguageModelCase,
    language_model_cases,
)

WAYS = ("missing", "unexpected", "misshapen")


def expect_logits(model: JudgedComponent, case: LanguageModelCase, parameters: Arrays, what: str) -> None:
    """Those of the formula with these parameters, at every real token."""
    wanted = case.output_for(parameters=parameters)
    seen = model(**case.inputs)["logits"]
    settled = case.specified(seen, wanted.value.astype(seen.dtype))
    expect_close(settled, wanted, what, factor=model.widening)


@verifies("M9.16", effort=0.5)
@given(case=language_model_cases(wants=("", "tie:true")))
def what_was_loaded_is_used(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """After each load the logits and `parameters` are those of the arrays that were loaded last."""
    model = case.unloaded(impl)
    for seed in (case.seed, case.seed + 1):
        given_ = case.but(seed=seed).parameters
        model.load(given_)
        expect_logits(model, case, given_, "logits after a load")
        for name, value in model.parameters().items():
            expect_same_bits(value, given_[name], f"{name} after a load")


@verifies("M9.16", effort=0.15)
@given(case=language_model_cases())
def a_checkpoint_brings_every_weight(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """A trainer that loads what another saved computes with every array of it, where it is offered."""
    if case.fixed or not impl.offers(DECODER_ONLY.trainer):
        return
    first = JudgedTrainer(impl, case.config, case.parameters, DECODER_ONLY)
    other = JudgedTrainer(impl, case.config, None, DECODER_ONLY)
    with tempfile.TemporaryDirectory() as directory:
        first.save(directory)
        other.load(directory)
    other.model.eval()
    expect_logits(other.model, case, case.parameters, "logits of a loaded checkpoint")


@verifies("M9.16", effort=0.5)
@given(case=language_model_cases(), way=st.sampled_from(WAYS), place=st.integers(0, 40))
def names_that_do_not_fit_are_refused(
    impl: JudgedImplementation, case: LanguageModelCase, way: str, place: int
) -> None:
    """A load with a name missing, unknown or of another shape raises, and the weights stay as they were."""
    model = case.loaded(impl)
    name = sorted(case.parameters)[place % len(case.parameters)]
    wrong = dict(case.but(seed=case.seed + 1).parameters)
    if way == "missing":
        del wrong[name]
    elif way == "unexpected":
        wrong["decoder.extra.weight"] = wrong[name]
    else:
        wrong[name] = np.concatenate([wrong[name], wrong[name][:1]])
    expect_refused(partial(model.component.load, wrong), f"a load with {name} {way}")
    expect_logits(model, case, case.parameters, f"logits after a load with {name} {way} was refused")
