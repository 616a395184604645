"""M6: what decoding by hand is given and cannot be meant: rows, tokens, temperatures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_refused
from attest.contract import Architecture
from attest.evidence import note_case
from attest.judging.property import verifies
from attest.milestones.m06_generation.cases.caching import CacheCase

LOGITS = np.array([[0.5, -1.0, 2.0, 0.0]], np.float32)
WRONG_SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": -0.5},
    {"temperature": math.nan},
    {"top_k": 0},
    {"top_k": -1},
    {"top_p": 0.0},
    {"top_p": 1.5},
    {"top_p": math.nan},
)
WRONG_LOGITS = {
    "a NaN": np.array([[0.5, math.nan, 2.0, 0.0]], np.float32),
    "positive infinity": np.array([[0.5, math.inf, 2.0, 0.0]], np.float32),
    "nothing but negative infinity": np.full((1, 4), -math.inf, np.float32),
    "a single axis": LOGITS[0],
    "three axes": LOGITS[None],
    "no classes": LOGITS[:, :0],
}


@verifies("M6.10b")
def a_state_refuses_what_does_not_fit(impl: JudgedImplementation, architecture: Architecture) -> None:
    """Rows that do not exist, and tokens of other rows or outside the vocabulary, are refused."""
    case = CacheCase(B=2, S=3, dtype=impl.dtypes[0], architecture=architecture).fitted(impl)
    model, tokens = case.model(impl), case.tokens(0, case.B, 1)

    def stepped() -> Any:
        """A new state for every question: a refused step may have used its state up."""
        return model.step(model.start(architecture.beginning(case.prompt)), tokens)[1]

    stepped()  # not offered where the model has no steps
    for rows in ([-1], [case.B], [0, case.B], [[0]]) if model.reorders else ():
        what = f"reorder with rows={rows} of {case.B}"
        _expect_refused(what, partial(model.component.reorder, stepped(), np.array(rows)))
    for what, wrong in _wrong_tokens(case, tokens):
        _expect_refused(what, partial(model.component.step, stepped(), wrong))
    for what, prompt in _wrong_prompts(case):
        _expect_refused(what, partial(model.component.start, prompt))


def _wrong_prompts(case: CacheCase) -> Iterator[tuple[str, Any]]:
    """Nothing where the architecture starts without a prompt."""
    prompt = case.architecture.beginning(case.prompt)
    if isinstance(prompt, np.ndarray):
        V = case.config.source_vocab
        yield f"a start with the id {V} of a vocabulary of {V}", np.full_like(prompt, V)
        yield "a start with the id -1", np.full_like(prompt, -1)


def _wrong_tokens(case: CacheCase, tokens: Any) -> Iterator[tuple[str, Any]]:
    V = case.num_classes
    yield f"a step of {case.B + 1} rows for a state of {case.B}", np.concatenate([tokens, tokens[:1]])
    yield f"a step with the id {V} of a vocabulary of {V}", np.full_like(tokens, V)
    yield "a step with the id -1", np.full_like(tokens, -1)


@verifies("M6.10b")
def a_distribution_refuses_settings_that_make_no_sense(impl: JudgedImplementation) -> None:
    """The function refuses the settings that `generate` refuses."""
    if not impl.offers("next_token_distribution"):
        note_case("next_token_distribution is not offered", "refusal")
        return
    plain = {"temperature": 1.0, "top_k": None, "top_p": None}
    for changed in WRONG_SETTINGS:
        said = ", ".join(f"{name}={value}" for name, value in changed.items())
        ask = partial(
            impl.implementation.next_token_distribution, LOGITS.copy(), *{**plain, **changed}.values()
        )
        _expect_refused(f"next_token_distribution with {said}", ask)


@verifies("M6.10b")
def a_distribution_refuses_logits_that_have_none(impl: JudgedImplementation) -> None:
    """Logits of another rank, without classes or without a finite maximum raise an exception."""
    if not impl.offers("next_token_distribution"):
        note_case("next_token_distribution is not offered", "refusal")
        return
    for what, logits in WRONG_LOGITS.items():
        ask = partial(impl.implementation.next_token_distribution, logits.copy())
        _expect_refused(f"next_token_distribution of logits with {what}", ask)


def _expect_refused(what: str, call: Any) -> None:
    note_case(what, "refusal")
    expect_refused(call, what)
