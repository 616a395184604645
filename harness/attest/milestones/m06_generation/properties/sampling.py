"""M6: from logits to the next token: temperature, top-k, top-p, and draws that follow them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_finite,
    expect_same_bits,
    expect_shape,
    expect_zero,
)
from attest.contract import Architecture, Array
from attest.evidence import current, note_case
from attest.judging.property import given, print_drawn, verifies
from attest.milestones.m06_generation.cases.generation import GenerationCase, generation_cases
from attest.milestones.m06_generation.cases.sampling import COLD, LogitsCase, logits_cases
from attest.milestones.m06_generation.properties.generation import greedy, plain_case
from attest.reference.assembly import oracle_parts

DRAWS = 4096
LIMIT = 6.2  # standard deviations: one false alarm in 10^9
LIKELY = 0.1  # below it the normal law is too crude that far out
ODDS = (0.36, 0.25, 0.18, 0.13, 0.08)
SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 1.0},
    {"temperature": 0.6},
    {"temperature": 2.0, "top_k": 3},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 1.5, "top_k": 4, "top_p": 0.8},
)


@verifies("M6.7")
@given(case=logits_cases())
def temperature_divides_the_logits(impl: JudgedImplementation, case: LogitsCase) -> None:
    """softmax(logits / temperature), below and above 1, at every scale."""
    seen = impl.call("next_token_distribution", *case.arguments)
    expect_close(seen, case.expected, "probabilities", factor=impl.factor("next_token_distribution"))


@verifies("M6.7", effort=0.5)
@given(case=logits_cases(kinds=("close",), temperatures=COLD))
def a_low_temperature_is_not_zero(impl: JudgedImplementation, case: LogitsCase) -> None:
    """Down to 1e-6 the logits are divided: those as close as the temperature share the probability."""
    seen = impl.call("next_token_distribution", *case.arguments)
    expect_close(seen, case.expected, "probabilities", factor=impl.factor("next_token_distribution"))


@verifies("M6.7")
@given(case=logits_cases(), cold=st.sampled_from((0.0, 1e-30, 1e-7, 1e-300)), tied=st.booleans())
def zero_temperature_is_greedy(impl: JudgedImplementation, case: LogitsCase, cold: float, tied: bool) -> None:
    """1 on the argmax, on the lowest id among equals, and 0 elsewhere."""
    logits = case.logits.copy()
    if tied:
        logits[:, case.seed % case.V] = logits.max(axis=-1)
    seen = impl.call("next_token_distribution", logits, cold, None, None)
    expect_shape(seen, logits.shape, "probabilities")
    expect_finite(seen, "probabilities")
    wanted = (np.arange(case.V) == logits.argmax(-1)[:, None]).astype(seen.dtype)
    expect_same_bits(seen, wanted, f"a probability at temperature {cold:g}")


@verifies("M6.7", effort=0.3)
@given(case=generation_cases(), cold=st.sampled_from((0.0, 1e-30)))
def drawing_at_zero_temperature_is_greedy(
    impl: JudgedImplementation, case: GenerationCase, cold: float
) -> None:
    """Where the implementation generates, method sample at temperature 0 writes what greedy writes."""
    if impl.offers(case.architecture.generate):
        component = case.generator(impl)
        drawn = greedy(component, case, method="sample", temperature=cold, seed=case.seed)
        for (seen, _), (wanted, _) in zip(drawn, greedy(component, case)):
            expect(seen == wanted, f"tokens {seen} were drawn at temperature {cold:g}, greedy takes {wanted}")


@verifies("M6.7a", effort=0.5)
@given(case=logits_cases(kinds=("unit",)))
def the_right_tokens_are_kept(impl: JudgedImplementation, case: LogitsCase) -> None:
    """The k likeliest, then the smallest set that reaches p, for every combination of a few."""
    for one in case.grid():
        current().case = print_drawn({"case": one})
        expect_kept(impl, one)


def expect_kept(impl: JudgedImplementation, case: LogitsCase) -> None:
    """Renormalised, the rest exactly zero."""
    seen = impl.call("next_token_distribution", *case.arguments)
    wanted = case.expected
    expect_shape(seen, wanted.value.shape, "probabilities")
    expect_zero(seen[wanted.value == 0], "the probability of a token that is cut off")
    expect(bool(np.all(seen[wanted.value > 0] > 0)), "a token that is kept has probability 0")
    expect_close(seen, wanted, "probabilities", factor=impl.factor("next_token_distribution"))


@verifies("M6.7a")
@given(case=logits_cases(kinds=("unit",)), peak=st.sampled_from((3.0, 30.0)))
def the_likeliest_token_is_always_kept(impl: JudgedImplementation, case: LogitsCase, peak: float) -> None:
    """One token likelier than p leaves that one; p = 1 keeps all of them."""
    logits = case.logits.copy()
    best = logits.argmax(-1)
    np.put_along_axis(logits, best[:, None], logits.max() + logits.dtype.type(peak), axis=-1)
    one = impl.call("next_token_distribution", logits, 0.3, None, 0.5)
    wanted = (np.arange(case.V) == best[:, None]).astype(one.dtype)
    expect_same_bits(one, wanted, "a probability at top_p=0.5 with one token far above the rest")
    everything = impl.call("next_token_distribution", logits, 1.0, None, 1.0)
    expect(bool(np.all(everything > 0)), "a token was cut off at top_p=1")
    alone = impl.call("next_token_distribution", case.logits, 1.0, 1, None)
    expect_same_bits(alone, wanted, "a probability at top_k=1")


def fixed_odds(
    impl: JudgedImplementation, architecture: Architecture
) -> tuple[JudgedComponent, GenerationCase, Array]:
    """A model with the same probabilities at every step: only the bias of its projection is not zero."""
    case = plain_case(impl, architecture, limit=2)
    logits = np.full(case.num_classes, -1e4)
    logits[3 : 3 + len(ODDS)] = np.log(ODDS)
    component = impl.build(architecture.generate, case.config)
    component.load(case.always_saying(logits))
    return component, case, logits.astype(case.bias.dtype).astype(np.float64)


@verifies("M6.7a")
def draws_follow_the_distribution(impl: JudgedImplementation, architecture: Architecture) -> None:
    """Token by token, step by step, and one step tells nothing of the next."""
    if not impl.offers(architecture.generate):
        return
    component, case, logits = fixed_odds(impl, architecture)
    prompt = np.repeat(case.prompt[:1], DRAWS, axis=0)
    for seed, setting in enumerate(SETTINGS):
        note_case(f"{DRAWS} rows of {case.limit} tokens, seed={seed} {setting}", "drawn")
        found = greedy(component, case, prompt=prompt, method="sample", seed=seed, **setting)
        drawn = np.array([tokens for tokens, _ in found])
        p = distribution(logits, setting)
        for step in range(case.limit):
            expect_frequencies(drawn[:, step], p, f"step {step}")
        for other in range(1, case.limit):
            same = int((drawn[:, 0] == drawn[:, other]).sum())
            expect_count(same, float((p * p).sum()), f"step {other} repeating step 0")


def distribution(logits: Array, setting: dict[str, Any]) -> Array:
    """(V,) by the reference."""
    sampling = oracle_parts(GenerationCase().config).sampling
    p: Array = sampling.next_token_distribution(logits[None], **setting)[0]
    return p


def expect_frequencies(tokens: Array, p: Array, where: str) -> None:
    """Cut off tokens never appear, likely ones as often as they should."""
    counts = np.bincount(tokens, minlength=len(p))
    never = [int(t) for t in np.flatnonzero((p < 1e-12) & (counts > 0))]
    expect(not never, f"token {never[:1]} was drawn at {where}, its probability is 0")
    for token in np.flatnonzero(p >= LIKELY):
        expect_count(int(counts[token]), float(p[token]), f"token {token} at {where}")


def expect_count(count: int, p: float, what: str) -> None:
    """A binomial count within 6.2 standard deviations."""
    deviation = (count - DRAWS * p) / math.sqrt(DRAWS * p * (1 - p)) if p < 1 - 1e-12 else DRAWS - count
    expect(
        abs(deviation) < LIMIT,
        f"{what} came {count} times in {DRAWS}, should be near {DRAWS * p:.0f} ({deviation:+.1f} deviations)",
    )


@verifies("M6.7a", effort=0.3)
@given(case=generation_cases())
def draws_repeat_with_their_seed(impl: JudgedImplementation, case: GenerationCase) -> None:
    """The same seed draws the same tokens; top_k = 1 is greedy whatever the seed."""
    if not impl.offers(case.architecture.generate):
        return
    component = case.generator(impl)
    request = case.request(method="sample", temperature=1.5, top_p=0.9, seed=case.seed)
    first, again = component(**request), component(**request)
    for name in ("tokens", "scores"):
        expect(name in first and name in again, f"generate returned no {name}")
        expect_same_bits(again[name], first[name], f"{name} drawn with the same seed")
    drawn = greedy(component, case, method="sample", top_k=1, seed=case.seed)
    for (seen, _), (wanted, _) in zip(drawn, greedy(component, case)):
        expect(seen == wanted, f"tokens {seen} were drawn with top_k=1, greedy takes {wanted}")


@verifies("M6.7a")
def seeds_differ(impl: JudgedImplementation, architecture: Architecture) -> None:
    """Two seeds do not draw the same tokens."""
    if not impl.offers(architecture.generate):
        return
    component, case, _ = fixed_odds(impl, architecture)
    note_case("64 rows, seeds 0 and 1", "drawn")
    prompt = np.repeat(case.prompt[:1], 64, axis=0)
    drawn = [greedy(component, case, prompt=prompt, method="sample", seed=seed) for seed in (0, 1)]
    same = [a for (a, _), (b, _) in zip(*drawn) if a == b]
    expect(len(same) < 64, "seeds 0 and 1 drew the same tokens in all of 64 rows")
