"""M6: greedy generation, rows that do not depend on each other, and requests that are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation, quiet
from attest.checks.arrays import expect, expect_refused, expect_refused_by_name, expect_same_bits
from attest.checks.generation import (
    Found,
    expect_best,
    expect_greedy,
    expect_same_choices,
    expect_scores,
    results_of,
    tolerance_of,
)
from attest.contract import Architecture, Array
from attest.evidence import note_case
from attest.judging.named import ONCE, named
from attest.judging.property import given, verifies
from attest.milestones.m06_generation.cases.generation import (
    LONG_OUTPUT,
    ROOM,
    BeamCase,
    GenerationCase,
    beam_cases,
    generation_cases,
    uneven_cases,
)
from attest.outcomes import NotOffered
from attest.reference.decoding.search import Result


def greedy(component: JudgedComponent, case: GenerationCase, **changes: Any) -> list[Found]:
    """The one result of each row."""
    request = case.request(**changes)
    rows = len(request[case.architecture.prompt_keyword])
    found = results_of(component(**request), case, rows, 1, request["max_len"])
    return [row[0] for row in found]


@verifies("M6.1")
@given(case=generation_cases())
def greedy_takes_the_likeliest_token(impl: JudgedImplementation, case: GenerationCase) -> None:
    """Each token has the largest logit given the tokens before it; rows end on their own."""
    found = greedy(case.generator(impl), case)
    readings = case.teacher(impl).read(case.prompt, [tokens for tokens, _ in found])
    for row, reading in enumerate(readings):
        expect_greedy(reading, f"row {row}")
    expect_scores(found, readings, 0.0)


def two_equal(impl: JudgedImplementation, case: GenerationCase) -> tuple[JudgedComponent, list[int]]:
    """A model with two ids that are always the likeliest: a projection of zeros leaves the bias as logits."""
    c = case.config
    real = [i for i in range(case.num_classes) if i not in (c.pad_id, c.bos_id)]
    best = sorted(int(i) for i in case.rng(7).choice(real, 2, replace=False))
    bias = case.bias.copy()
    bias[real] = np.where(np.isin(real, best), 1.0, -1.0)
    component = impl.build(case.architecture.generate, c)
    component.load(case.always_saying(bias))
    return component, best


@verifies("M6.1", effort=0.3)
@given(case=generation_cases(min_limit=2))
def of_equal_logits_one_is_taken(impl: JudgedImplementation, case: GenerationCase) -> None:
    """One of two equal logits is taken, and the same one when asked again."""
    component, best = two_equal(impl, case)
    first, again = greedy(component, case), greedy(component, case)
    for (tokens, _), (same, _) in zip(first, again):
        expect(set(tokens) <= set(best), f"tokens {tokens} were chosen, ids {best} are the likeliest")
        expect(tokens == same, f"tokens {same} were chosen in a second call, {tokens} in the first")


@verifies("M6.1a", effort=0.5)
@given(case=generation_cases(min_limit=2))
def of_equal_logits_the_lowest_id_wins(impl: JudgedImplementation, case: GenerationCase) -> None:
    """Of equal logits the lowest id is taken, at every step and in every row."""
    component, best = two_equal(impl, case)
    wanted = (best[0],) * (1 if best[0] == case.config.eos_id else case.limit)
    for tokens, _ in greedy(component, case):
        expect(
            tokens == wanted, f"tokens {tokens} were chosen, ids {best} are equally likely; take {best[0]}"
        )


@verifies("M6.1", effort=ONCE)
@given(case=named(LONG_OUTPUT))
def greedy_takes_the_likeliest_of_forty_tokens(impl: JudgedImplementation, case: GenerationCase) -> None:
    """Each of 40 tokens after a prompt of 70 has the largest logit."""
    greedy_takes_the_likeliest_token(impl, case)


@verifies("M6.1", effort=0.15)
@given(case=generation_cases(min_rows=4, min_limit=6, ends=(1.0, 2.0)))
def rows_that_end_apart_end_on_their_own(impl: JudgedImplementation, case: GenerationCase) -> None:
    """With four rows and a likely end some row nearly always ends before another, in the first place too."""
    greedy_takes_the_likeliest_token(impl, case)


@verifies("M6.9", effort=0.5)
@given(case=generation_cases(min_rows=2))
def a_row_does_not_depend_on_its_neighbours(impl: JudgedImplementation, case: GenerationCase) -> None:
    """Greedy gives for each row what it gives for the row alone, with any amount of padding."""
    component = case.generator(impl)
    together = greedy(component, case)
    for row, (tokens, score) in enumerate(together):
        for extra in (0, 3):
            alone = greedy(component, case, prompt=case.alone(row, extra))[0]
            reading = case.teacher(impl).read(case.alone(row), [alone[0]])[0]
            expect_same_choices(tokens, alone[0], reading, f"row {row} in the batch, against alone,")
            if tokens == alone[0]:
                close = [Result(alone[0], 0.0, alone[1])]
                expect_best([(tokens, score)], close, 2 * reading.error)


@verifies("M6.9", effort=0.5)
@given(case=st.one_of(beam_cases(min_rows=2), uneven_cases()))
def a_beam_does_not_depend_on_its_neighbours(impl: JudgedImplementation, case: BeamCase) -> None:
    """Hypotheses and scores of a row are those of the row alone, unless two candidates are nearly tied."""
    component = case.generator(impl)
    together = results_of(component(**case.request()), case, case.B, case.K, case.limit)
    for row in range(case.B):
        prompt = case.alone(row)
        seen = component(**case.request(prompt))
        alone = results_of(seen, case, 1, case.K, case.limit)[0]
        readings = case.teacher(impl).read(np.repeat(prompt, case.K, 0), [tokens for tokens, _ in alone])
        tolerance = 2 * tolerance_of(readings, case.alpha, case.limit)
        same = [tokens for tokens, _ in together[row]] == [tokens for tokens, _ in alone]
        if same or case.searcher.beam(prompt, case.limit, case.W, case.alpha).gap > 2 * tolerance:
            expect_best(together[row], [Result(t, 0.0, score) for t, score in alone], tolerance)


@verifies("M6.9", effort=0.3)
@given(case=generation_cases())
def a_call_does_not_depend_on_the_one_before(impl: JudgedImplementation, case: GenerationCase) -> None:
    """The second call equals the first, also after one with more rows, a longer prompt and more tokens."""
    component = case.generator(impl)
    longer, limit = case.longest()
    more = {case.architecture.prompt_keyword: np.concatenate([longer] * 2), "max_len": limit}
    for request in (case.request(), case.request(method="beam")):
        first = component(**request)
        component(**{**request, **more})
        again = component(**request)
        for name in ("tokens", "scores"):
            expect(name in first and name in again, f"generate returned no {name}")
            expect_same_bits(again[name], first[name], f"{name} of a second call")


@verifies("M6.6", "M6.9", effort=0.3)
@given(case=generation_cases(min_limit=2))
def an_answer_follows_the_parameters(impl: JudgedImplementation, case: GenerationCase) -> None:
    """The same prompt after a load is answered with the loaded parameters."""
    component = case.generator(impl)
    greedy(component, case)
    other = case.but(seed=case.seed + 1)
    component.load(other.parameters)
    found = greedy(component, case)
    readings = other.teacher(impl).read(case.prompt, [tokens for tokens, _ in found])
    for row, reading in enumerate(readings):
        expect_greedy(reading, f"row {row} after a load")
    expect_scores(found, readings, 0.0)


def training_flag(component: Any) -> bool | None:
    """The flag of the component or of the module inside it, where there is one."""
    for owner in (component, getattr(component, "module", None), getattr(component, "model", None)):
        flag = getattr(owner, "training", None)
        if isinstance(flag, bool):
            return flag
    return None


@verifies("M6.9", effort=0.3)
@given(case=generation_cases())
def generation_is_in_eval_mode_and_leaves_the_mode_alone(
    impl: JudgedImplementation, case: GenerationCase
) -> None:
    """In train mode the answer is that of eval mode; afterwards the training flag is as it was."""
    component = case.generator(impl)
    for method in ("greedy", "sample", "beam"):
        request = case.request(method=method)
        wanted = component(**request)
        on = training_flag(component.component)
        expect(on is not True, f"training is on after a call with method={method!r} in eval mode")
        component.train(case.seed)
        before = training_flag(component.component)
        seen = component(**request)
        after = training_flag(component.component)
        component.eval()
        what = f"a call with method={method!r}"
        expect(before == after, f"training was {before} before {what} and {after} after it")
        for name in ("tokens", "scores"):
            expect(name in seen and name in wanted, f"generate returned no {name}")
            expect_same_bits(seen[name], wanted[name], f"{name} of {what} in train mode")


@verifies("M6.9a", effort=0.5)
@given(case=generation_cases())
def left_padding_changes_nothing(impl: JudgedImplementation, case: GenerationCase) -> None:
    """A prompt padded on the left gives the tokens and score of the prompt alone."""
    component = case.generator(impl)
    for row in range(case.B):
        plain = case.alone(row)
        padded = np.pad(plain, ((0, 0), (1 + row, 0)), constant_values=case.config.pad_id)
        tokens, score = greedy_unless_refused(component, case, padded)
        alone = greedy(component, case, prompt=plain)[0]
        reading = case.teacher(impl).read(plain, [alone[0]])[0]
        expect_same_choices(tokens, alone[0], reading, f"row {row} padded on the left, against alone,")
        if tokens == alone[0]:
            expect_best([(tokens, score)], [Result(tokens, 0.0, alone[1])], 2 * reading.error)


def greedy_unless_refused(component: JudgedComponent, case: GenerationCase, prompt: Array) -> Found:
    """Left padding may be refused; then the criterion is not offered."""
    try:
        with quiet():
            component.component(**case.request(prompt))
    except ValueError as refusal:
        stream = case.architecture.prompt_keyword
        raise NotOffered(f"left-padded {stream}s are refused: {refusal}") from None
    except Exception:
        pass  # the next line reports it
    return greedy(component, case, prompt=prompt)[0]


def nonsense(case: GenerationCase) -> dict[str, tuple[dict[str, Any], tuple[str, ...]]]:
    """Requests that cannot be meant, and the words a refusal should hold."""
    name, vocabulary = case.architecture.prompt_keyword, case.prompt_vocabulary
    beam = {"method": "beam", "width": 4, "num_results": 1}
    sample = {"method": "sample"}
    beyond: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
        f"max_len={ROOM + 1}": ({"max_len": ROOM + 1}, ("max_len", f"{ROOM + 1}")),
        f"max_len={ROOM + 1} of a beam": ({**beam, "max_len": ROOM + 1}, ("max_len", f"{ROOM + 1}")),
        f"a {name} of {ROOM + 1} tokens": ({name: np.full((1, ROOM + 1), 4)}, (name, f"{ROOM + 1}")),
    }
    return {
        **(beyond if case.config.ends_at_max_len else {}),  # other positions go on for ever
        "width=0": ({**beam, "width": 0}, ("width", "0")),
        "width=-1": ({**beam, "width": -1}, ("width", "-1")),
        "num_results=3 of width=2": ({**beam, "width": 2, "num_results": 3}, ("num_results", "3")),
        "num_results=0": ({**beam, "num_results": 0}, ("num_results", "0")),
        "temperature=-0.5": ({**sample, "temperature": -0.5}, ("temperature", "-0.5")),
        "temperature=nan": ({**sample, "temperature": math.nan}, ("temperature", "nan")),
        "max_len=0": ({"max_len": 0}, ("max_len", "0")),
        "max_len=0 of a beam": ({**beam, "max_len": 0}, ("max_len", "0")),
        "max_len=-2": ({"max_len": -2}, ("max_len", "-2")),
        "top_k=0": ({**sample, "top_k": 0}, ("top_k", "0")),
        "top_k=-1": ({**sample, "top_k": -1}, ("top_k", "-1")),
        "top_p=0.0": ({**sample, "top_p": 0.0}, ("top_p", "0.0")),
        "top_p=1.5": ({**sample, "top_p": 1.5}, ("top_p", "1.5")),
        "top_p=nan": ({**sample, "top_p": math.nan}, ("top_p", "nan")),
        f"a {name} without columns": ({name: np.zeros((2, 0), np.int64)}, (name,)),
        f"{name} id {vocabulary}": ({name: np.array([[4, vocabulary]])}, (name, f"{vocabulary}")),
        f"{name} id -1": ({name: np.array([[4, -1]])}, (name, "-1")),
    }


def plain_case(impl: JudgedImplementation, architecture: Architecture, limit: int = 3) -> GenerationCase:
    """A case that is not drawn."""
    case = GenerationCase(S=2, symbols=11, limit=limit, dtype=impl.dtypes[0], architecture=architecture)
    return case.fitted(impl)


def nonsensical_calls(
    impl: JudgedImplementation, architecture: Architecture
) -> list[tuple[str, Any, tuple[str, ...]]]:
    """What is asked, the call, the words."""
    case = plain_case(impl, architecture)
    component = case.generator(impl)
    greedy(component, case)  # a sensible request is answered
    made = []
    for what, (changes, words) in nonsense(case).items():
        request = case.request(**changes)
        made.append((what, lambda request=request: component.component(**request), words))
    return made


@verifies("M6.10")
def nonsense_is_refused(impl: JudgedImplementation, architecture: Architecture) -> None:
    """A request that makes no sense raises before any output."""
    for what, call, _ in nonsensical_calls(impl, architecture):
        note_case(what, "refusal")
        expect_refused(call, what)


@verifies("M6.10a")
def refusals_name_argument_and_value(impl: JudgedImplementation, architecture: Architecture) -> None:
    """A ValueError holds the name of the argument and its value."""
    for what, call, words in nonsensical_calls(impl, architecture):
        note_case(what, "refusal")
        expect_refused_by_name(call, what, *words)
