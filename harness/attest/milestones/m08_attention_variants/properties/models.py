"""M8: how far a stack with a window sees, and its cache."""

from __future__ import annotations

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_same_bits
from attest.contract import Array
from attest.judging.property import given, verifies
from attest.milestones.m08_attention_variants.cases.models import (
    WindowCase,
    wide_window_cases,
    window_cases,
)
from attest.outcomes import Expected
from attest.reference.oracle import expected


@verifies("M8.5")
@given(case=window_cases())
def a_stack_reaches_back_by_its_windows(impl: JudgedImplementation, case: WindowCase) -> None:
    """A changed token moves logits up to L (W - 1) positions on, that far one included, and no bit beyond."""
    case = case.sharpest(impl)
    component, place = case.loaded(impl), case.seed % max(1, case.T - case.reach)
    ids = case.tokens(0, case.T)
    other = ids.copy()
    other[:, place] = case.another(ids[:, place])
    before, after = (component(ids=given)["logits"] for given in (ids, other))
    reached = (np.arange(case.T) >= place) & (np.arange(case.T) <= place + case.reach)
    beyond = f"logits beyond {case.N} windows of {case.W}"
    expect_same_bits(after[:, ~reached], before[:, ~reached], beyond)
    still = [int(t) for t in np.flatnonzero(reached) if (after[:, t] == before[:, t]).all()]
    expect(not still, f"logits at {still} do not see token {place} through {case.N} windows, should")


@verifies("M8.6")
@given(case=window_cases(scripted=True))
def a_windowed_cache_equals_the_full_pass(impl: JudgedImplementation, case: WindowCase) -> None:
    """Steps to and across the end of the window, of one token and of many, also after tokens taken back."""
    expect_script(impl, case)


@verifies("M8.6", effort=0.3)
@given(case=wide_window_cases())
def a_cache_holds_a_wide_window(impl: JudgedImplementation, case: WindowCase) -> None:
    """Windows of 66 and 129 tokens, filled and crossed: no cache ends before its window does."""
    expect_script(impl, case)


def expect_script(impl: JudgedImplementation, case: WindowCase) -> None:
    """Every step of the script gives the logits of the full pass."""
    component = case.loaded(impl)
    state, ids = component.start(case.B), np.zeros((case.B, 0), np.int64)
    for turn, word in enumerate(case.script.split(".")):
        count = int(word[1:] or 0)
        if word[0] == "s":
            new = case.tokens(turn, count)
            ids = np.concatenate([ids, new], axis=1)[:, : case.room]
            if ids.shape[1] == case.room:
                return
            logits, state = component.step(state, new)
            expect_last(component, case, ids, logits, f"the logits of step {turn}")
        elif word[0] == "r":
            if component.reorders:
                ids, state = ids[::-1], component.reorder(state, np.arange(case.B)[::-1].copy())
        elif hasattr(component.component, "rewind") and count < ids.shape[1]:
            ids, state = ids[:, : ids.shape[1] - count], component.rewind(state, count)


def expect_last(component: JudgedComponent, case: WindowCase, ids: Array, logits: Array, what: str) -> None:
    """Logits of the newest tokens against a full pass over all of them."""
    full = expected("language_model", case.config, case.parameters, {"ids": ids})["logits"]
    new = logits.shape[1]
    wanted = Expected(full.value[:, -new:], full.bound[:, -new:])
    expect_close(logits, wanted, f"{what} after {ids.shape[1] - new} tokens", factor=2 * component.widening)
