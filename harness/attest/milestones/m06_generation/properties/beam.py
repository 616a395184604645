"""M6: beam search, its scores and its length penalty."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect, expect_refused, expect_same_bits, expect_shape
from attest.checks.generation import (
    Found,
    expect_best,
    expect_greedy,
    expect_ordered,
    expect_scores,
    results_of,
    tolerance_of,
)
from attest.contract import Architecture, Array
from attest.evidence import note_case
from attest.judging.named import ONCE, named
from attest.judging.property import given, verifies
from attest.milestones.m06_generation.cases.generation import (
    ALPHAS,
    CROWDED_ENDS,
    EIGHT_WIDE,
    LATE_AND_CROWDED,
    LONG_BEAM,
    MORE_THAN_OUTPUTS,
    BeamCase,
    UnevenCase,
    beam_cases,
    crowded_cases,
    exhaustive_cases,
    outputs,
    uneven_cases,
)
from attest.reference.decoding.teacher import Reading, Tokens, summed


def beam(impl: JudgedImplementation, case: BeamCase, **changes: Any) -> list[list[Found]]:
    """The K results of each row."""
    seen = case.generator(impl)(**case.request(**changes))
    return results_of(seen, case, case.B, case.K, case.limit)


def read(impl: JudgedImplementation, case: BeamCase, row: int, found: list[Found]) -> list[Reading]:
    """What the model says of the hypotheses of one row when it is fed them whole."""
    prompt = np.repeat(case.prompt[row : row + 1], len(found), axis=0)
    return case.teacher(impl).read(prompt, [tokens for tokens, _ in found])


@verifies("M6.2", effort=0.5)
@given(case=exhaustive_cases())
def a_wide_beam_is_exhaustive_search(impl: JudgedImplementation, case: BeamCase) -> None:
    """With V^max_len hypotheses nothing is pruned, so the results are the best of all outputs."""
    for row, found in enumerate(beam(impl, case)):
        expect_ordered(found)
        wanted = case.searcher.exhaustive(case.prompt[row : row + 1], case.limit, case.alpha)
        readings = read(impl, case, row, found)
        expect_best(found, wanted, tolerance_of(readings, case.alpha, case.limit))


@verifies("M6.2", effort=1.5)
@given(case=beam_cases(min_rows=2))
def a_narrow_beam_keeps_what_it_should(impl: JudgedImplementation, case: BeamCase) -> None:
    """Of the 2W best continuations those ending in the first W finish, and W others go on."""
    expect_searched(impl, case)


@verifies("M6.2", effort=0.3)
@given(case=uneven_cases())
def a_row_that_is_done_collects_no_more(impl: JudgedImplementation, case: UnevenCase) -> None:
    """A row with W finished hypotheses is closed while other rows are still searched."""
    expect_searched(impl, case)


@verifies("M6.2", effort=0.3)
@given(case=crowded_cases())
def a_beam_may_be_wider_than_the_vocabulary(impl: JudgedImplementation, case: BeamCase) -> None:
    """Places that the first step cannot fill stay empty and never finish."""
    expect_searched(impl, case)


@verifies("M6.2", effort=ONCE)
@given(case=named(*LATE_AND_CROWDED))
def an_empty_place_does_not_finish(impl: JudgedImplementation, case: BeamCase) -> None:
    """Of a beam wider than the vocabulary the search goes on until W hypotheses have ended."""
    expect_searched(impl, case)


@verifies("M6.2", effort=ONCE)
@given(case=named(EIGHT_WIDE))
def a_beam_of_eight_follows_eight(impl: JudgedImplementation, case: BeamCase) -> None:
    """A width above the default is not cut to it."""
    expect_searched(impl, case)


@verifies("M6.2", effort=ONCE)
@given(case=named(*CROWDED_ENDS))
def the_last_of_the_continuations_counts(impl: JudgedImplementation, case: BeamCase) -> None:
    """All 2W continuations are considered: where W others end, the last one goes on."""
    expect_searched(impl, case)


def expect_searched(impl: JudgedImplementation, case: BeamCase) -> None:
    """Row by row what the slow search finds for the row alone, where no candidates are nearly tied."""
    for row, found in enumerate(beam(impl, case)):
        expect_ordered(found)
        wanted = case.searcher.beam(case.prompt[row : row + 1], case.limit, case.W, case.alpha)
        tolerance = tolerance_of(read(impl, case, row, found), case.alpha, case.limit)
        if wanted.gap > 2 * tolerance:
            expect_best(found, wanted.results, tolerance)


@verifies("M6.2b", effort=0.3)
@given(case=beam_cases(), method=st.sampled_from(("beam", "greedy")))
def no_padding_follows_the_longest(impl: JudgedImplementation, case: BeamCase, method: str) -> None:
    """The last axis of the tokens is as long as the longest result."""
    case = case if method == "beam" else case.but(K=1)
    seen = case.generator(impl)(**case.request(method=method))
    found = results_of(seen, case, case.B, case.K, case.limit)
    longest, columns = max(len(tokens) for row in found for tokens, _ in row), seen["tokens"].shape[-1]
    expect(columns == longest, f"{method} gave {columns} columns, the longest result has {longest} tokens")


@verifies("M6.2c", effort=ONCE)
@given(case=named(*MORE_THAN_OUTPUTS))
def more_results_than_outputs(impl: JudgedImplementation, case: BeamCase) -> None:
    """Refused, or what exists comes first, once, and behind it padding scored minus infinity."""
    seen = case.generator(impl).accepted(**case.request())
    if seen is None:
        return
    expect_shape(seen["scores"], (case.B, case.K), "scores")
    for row in range(case.B):
        tokens, scores = seen["tokens"][row], seen["scores"][row]
        real = int(np.isfinite(scores).sum())
        expect_shape(tokens, (case.K, tokens.shape[-1]), f"the tokens of row {row}")
        expect(bool(np.all(scores[real:] == -np.inf)), f"the scores of row {row} are {scores}")
        expect(
            bool(np.all(tokens[real:] == case.config.pad_id)), f"an empty result of row {row} holds tokens"
        )
        written = [tuple(int(token) for token in result) for result in tokens[:real]]
        expect(len(set(written)) == real, f"row {row} has a result twice: {written}")
        least = outputs(case.symbols, case.limit)
        expect(real >= least, f"row {row} has {real} results, {least} outputs exist")


@verifies("M6.2", effort=0.3)
@given(case=beam_cases())
def width_one_is_greedy(impl: JudgedImplementation, case: BeamCase) -> None:
    """Each token of a beam of one has the largest logit."""
    case = case.but(W=1, K=1)
    for row, found in enumerate(beam(impl, case)):
        expect_greedy(read(impl, case, row, found)[0], f"row {row} with width 1")


@verifies("M6.2")
def four_wide_by_default(impl: JudgedImplementation, architecture: Architecture) -> None:
    """Without a width four results can be had and five cannot; alpha is 0.6 and the method beam."""
    case = BeamCase(B=2, S=3, symbols=11, limit=5, W=4, K=4, seed=3, dtype=impl.dtypes[0])
    case = case.of(architecture).fitted(impl)
    note_case(str(case), "defaults")
    component = case.generator(impl)
    plain = case.plain_request()
    wanted, seen = component(**case.request()), component(**plain, num_results=4)
    for name in ("tokens", "scores"):
        expect(name in seen and name in wanted, f"generate returned no {name}")
        expect_same_bits(seen[name], wanted[name], f"{name} with the default width, alpha and method")
    one = component(**plain)
    expect(one["tokens"].shape[1] == 1, f"{one['tokens'].shape[1]} results by default, should be 1")
    expect_refused(lambda: component.component(**plain, num_results=5), "num_results=5 of the default width")


@verifies("M6.2a")
@given(case=beam_cases(min_rows=2))
def every_score_is_that_of_its_tokens(impl: JudgedImplementation, case: BeamCase) -> None:
    """The implementation's own model, fed each hypothesis whole, gives its score."""
    model = case.model(impl)
    for row, found in enumerate(beam(impl, case)):
        expect_ordered(found)
        own = own_logits(model, impl, case, row, [tokens for tokens, _ in found])
        readings = read(impl, case, row, found)
        said = [
            Reading(r.tokens, r.logits, r.bounds, summed(own[k], r.tokens), 2 * r.error)
            for k, r in enumerate(readings)
        ]
        expect_scores(found, said, case.alpha)


@verifies("M6.2a", effort=ONCE)
@given(case=named(LONG_BEAM))
def the_scores_of_long_outputs_are_those_of_their_tokens(impl: JudgedImplementation, case: BeamCase) -> None:
    """The scores of 40 tokens after a prompt of 70 are those of the tokens."""
    every_score_is_that_of_its_tokens(impl, case)


def own_logits(
    model: JudgedComponent, impl: JudgedImplementation, case: BeamCase, row: int, hypotheses: list[Tokens]
) -> Array:
    """(K, L, V): what the implementation's model says where the tokens of each hypothesis were chosen."""
    prompt = np.repeat(case.prompt[row : row + 1], len(hypotheses), axis=0)
    inputs, first = case.teacher(impl).inputs(prompt, hypotheses)
    seen = model(**no_smaller(inputs, case))
    expect("logits" in seen, f"{model.operation} returned {sorted(seen)}, should return logits")
    return seen["logits"][:, first:]


def no_smaller(inputs: dict[str, Array], case: BeamCase) -> dict[str, Array]:
    """With rows, and padding behind what is written, up to the least size of the case."""
    written, wide = case.architecture.written, {}
    for name, ids in inputs.items():
        rows, columns = (max(0, case.least - n) for n in ids.shape)
        behind = columns if name == written else 0
        longer = np.pad(ids, ((0, 0), (0, behind)), constant_values=case.config.pad_id)
        wide[name] = np.pad(longer, ((0, rows), (0, 0)), mode="edge")
    return wide


@verifies("M6.8", effort=0.5)
@given(case=beam_cases())
def the_score_follows_its_formula(impl: JudgedImplementation, case: BeamCase) -> None:
    """The score is log-probability / ((5 + n) / 6)^alpha for every alpha, by default 0.6."""
    component = case.generator(impl)
    for alpha in (*ALPHAS, None):
        request = case.request(alpha=alpha)
        if alpha is None:
            del request["alpha"]
        seen = results_of(component(**request), case, case.B, case.K, case.limit)
        for row, found in enumerate(seen):
            expect_scores(found, read(impl, case, row, found), 0.6 if alpha is None else alpha)


@verifies("M6.8", effort=0.5)
@given(case=exhaustive_cases(alphas=ALPHAS))
def a_larger_alpha_never_favours_the_shorter(impl: JudgedImplementation, case: BeamCase) -> None:
    """If the longer of two outputs is preferred at one alpha, it is preferred at every larger one."""
    case = case.but(K=outputs(case.symbols, case.limit))
    lower, higher = beam(impl, case), beam(impl, case.but(alpha=case.alpha + 1.0))
    for row in range(case.B):
        readings = read(impl, case, row, lower[row])
        tolerance = tolerance_of(readings, case.alpha, case.limit)
        before, after = dict(lower[row]), dict(higher[row])
        for long, short in ((a, b) for a in before for b in before if len(a) > len(b)):
            expect(
                before[long] - before[short] <= tolerance
                or (long in after and short in after and after[long] >= after[short] - tolerance),
                f"{long} is preferred to {short} at alpha={case.alpha}, not at {case.alpha + 1.0}",
            )


@verifies("M6.8", effort=0.5)
@given(case=exhaustive_cases(alphas=(0.0,)))
def alpha_zero_ranks_by_log_probability(impl: JudgedImplementation, case: BeamCase) -> None:
    """With alpha 0 the best K are those with the largest log-probability, at any length."""
    for row, found in enumerate(beam(impl, case)):
        readings = read(impl, case, row, found)
        tolerance = tolerance_of(readings, 0.0, case.limit)
        falling = [reading.log_probability for reading in readings]
        for rank, (better, worse) in enumerate(pairwise(falling)):
            expect(better >= worse - tolerance, f"rank {rank} is less likely than rank {rank + 1} at alpha=0")
