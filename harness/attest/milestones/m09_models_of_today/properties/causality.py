"""M9: nothing that comes later changes what was said before."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect_same_bits
from attest.contract import Array
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.language_models import (
    LanguageModelCase,
    language_model_cases,
)


def expect_before(case: LanguageModelCase, seen: Array, whole: Array, t: int, how: str) -> None:
    """Logits of the real tokens before place t."""
    real = case.real[:, :t]
    what = f"logits before place {t} {how} when the ids from there on changed"
    expect_same_bits(seen[:, :t][real], whole[:, :t][real], what)


@verifies("M9.5", effort=0.5)
@given(case=language_model_cases(min_length=2))
def the_future_is_hidden_everywhere(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """For every place t, ids changed from t on leave every bit of the logits before t."""
    model = case.loaded(impl)
    whole = model(**case.inputs)["logits"]
    for t in range(1, case.T):
        expect_before(case, model(ids=case.changed_from(t))["logits"], whole, t, "in eval mode")


@verifies("M9.5", effort=0.25)
@given(case=language_model_cases(min_length=2), t=st.integers(1, 11))
def the_future_is_hidden_in_training(impl: JudgedImplementation, case: LanguageModelCase, t: int) -> None:
    """In train mode, with the same seed, ids changed from t on leave every bit of the logits before t."""
    model, t = case.loaded(impl), 1 + t % (case.T - 1)

    def said(ids: Array) -> Array:
        model.train(case.seed)
        return model(ids=ids)["logits"]

    try:
        expect_before(case, said(case.changed_from(t)), said(case.ids), t, "in train mode")
    finally:
        model.eval()


@verifies("M9.5", effort=0.5)
@given(case=language_model_cases(min_length=3), first=st.integers(1, 10))
def the_future_is_hidden_beside_a_cache(
    impl: JudgedImplementation, case: LanguageModelCase, first: int
) -> None:
    """In a prompt that is read in two steps of several tokens, later ids leave what was said before them."""
    model, cut = case.loaded_anew(impl), 1 + first % (case.T - 2)
    whole = in_two_steps(model, case.ids, cut)
    for t in range(1, case.T):
        how = f"of a prompt read in steps of {cut} and {case.T - cut} tokens"
        expect_before(case, in_two_steps(model, case.changed_from(t), cut), whole, t, how)


def in_two_steps(model: JudgedComponent, ids: Array, cut: int) -> Array:
    """(B, T, V): the logits of a prompt whose first `cut` tokens come in a step of their own."""
    early, state = model.step(model.start(len(ids)), ids[:, :cut])
    late, _ = model.step(state, ids[:, cut:])
    return np.concatenate([early, late], axis=1)
