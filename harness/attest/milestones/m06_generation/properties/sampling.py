"""M6: from logits to the next token: temperature, top-k, top-p, and draws that follow them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_finite,
    expect_near,
    expect_same_bits,
    expect_shape,
    expect_zero,
)
from attest.checks.statistics import expect_share
from attest.contract import Architecture, Array
from attest.evidence import current, note_case
from attest.judging.property import given, print_drawn, verifies
from attest.milestones.m06_generation.cases.generation import GenerationCase, generation_cases
from attest.milestones.m06_generation.cases.sampling import COLD, LogitsCase, logits_cases
from attest.milestones.m06_generation.properties.generation import greedy, plain_case
from attest.reference.assembly import oracle_parts

ROWS = 4096
ODDS = (0.33, 0.24, 0.18, 0.12, 0.08, 0.03, 0.012, 0.004, 0.002, 0.002)
# Neighbours, and seeds that agree modulo 2, 256 or 65536, as those of a generator that keeps one byte do.
SEEDS = (*range(8), 255, 256, 257, 1000, 65536, 2**31 - 1)
# Each limit alone and both together; temperatures on both sides of 1 change which tokens top_p keeps.
SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 1.0, "max_len": 4},
    {"temperature": 0.6},
    {"temperature": 2.0, "top_k": 3},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 1.5, "top_k": 4, "top_p": 0.8},
)


def cold_temperatures() -> st.SearchStrategy[float]:
    """What is taken for 0."""
    # 1e-300 divides a logit to infinity, and 1e-30 does so in float32.
    return st.sampled_from((0.0, 1e-30, 1e-7, 1e-300))


@verifies("M6.7", large=1)
@given(case=logits_cases())
def temperature_divides_the_logits(impl: JudgedImplementation, case: LogitsCase) -> None:
    """Probabilities are softmax(logits / temperature), below and above 1, at every scale."""
    seen = impl.call("next_token_distribution", *case.arguments)
    expect_close(seen, case.expected, "probabilities", factor=impl.factor("next_token_distribution"))


@verifies("M6.7", effort=0.5)
@given(case=logits_cases(regimes=("close",), temperatures=COLD))
def a_low_temperature_is_not_zero(impl: JudgedImplementation, case: LogitsCase) -> None:
    """Logits are divided down to 1e-6: those as close as the temperature share the probability."""
    seen = impl.call("next_token_distribution", *case.arguments)
    expect_close(seen, case.expected, "probabilities", factor=impl.factor("next_token_distribution"))


@verifies("M6.7", large=1)
@given(case=logits_cases(), cold=cold_temperatures(), tied=st.booleans())
def zero_temperature_is_greedy(impl: JudgedImplementation, case: LogitsCase, cold: float, tied: bool) -> None:
    """The argmax, or one of several equal ones, has probability 1 and the others 0."""
    logits = case.tied if tied else case.logits
    seen = impl.call("next_token_distribution", logits, cold, None, None)
    expect_shape(seen, logits.shape, "probabilities")
    expect_finite(seen, "probabilities")
    chosen = seen.argmax(-1)[:, None]
    wanted = (np.arange(case.V) == chosen).astype(seen.dtype)
    expect_same_bits(seen, wanted, f"a probability at temperature {cold:g}")
    short = logits.max(-1) - np.take_along_axis(logits, chosen, -1)[:, 0]
    expect(not short.any(), f"the token chosen at temperature {cold:g} has not the largest logit")


@verifies("M6.7b", effort=0.5, large=1)
@given(case=logits_cases(), cold=cold_temperatures())
def zero_temperature_takes_the_lowest_of_equals(
    impl: JudgedImplementation, case: LogitsCase, cold: float
) -> None:
    """The first of the largest logits has probability 1."""
    seen = impl.call("next_token_distribution", case.tied, cold, None, None)
    wanted = (np.arange(case.V) == case.tied.argmax(-1)[:, None]).astype(seen.dtype)
    expect_same_bits(seen, wanted, f"a probability at temperature {cold:g}, two logits being equal,")


@verifies("M6.7", effort=0.3)
@given(case=generation_cases(), cold=st.sampled_from((0.0, 1e-30)))
def drawing_at_zero_temperature_is_greedy(
    impl: JudgedImplementation, case: GenerationCase, cold: float
) -> None:
    """Method sample at temperature 0 writes what greedy writes."""
    if impl.offers(case.architecture.generate):
        component = case.generator(impl)
        drawn = greedy(component, case, method="sample", temperature=cold, seed=case.seed)
        for (seen, _), (wanted, _) in zip(drawn, greedy(component, case)):
            expect(seen == wanted, f"tokens {seen} were drawn at temperature {cold:g}, greedy takes {wanted}")


@verifies("M6.7a", effort=0.5, large=1)
@given(case=logits_cases(regimes=("unit",)))
def the_right_tokens_are_kept(impl: JudgedImplementation, case: LogitsCase) -> None:
    """The k likeliest are kept, and of these the smallest set that reaches p."""
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


@verifies("M6.7a", effort=0.3)
@given(case=logits_cases(regimes=("unit",)))
def a_row_is_cut_by_its_own_sums(impl: JudgedImplementation, case: LogitsCase) -> None:
    """A sharp row and a flat one in a batch give what each gives alone, with top_k and with top_p."""
    rows = np.concatenate([3 * case.logits[:1], case.logits[:1] / 3])
    for top_k, top_p in ((2, None), (None, 0.7), (3, 0.7)):
        both = impl.call("next_token_distribution", rows, 1.0, top_k, top_p)
        alone = [impl.call("next_token_distribution", row[None], 1.0, top_k, top_p) for row in rows]
        what = f"probabilities of a batch with top_k={top_k} top_p={top_p}, beside each row alone,"
        expect_near(both, np.concatenate(alone).astype(np.float64), 1e-5, what)


@verifies("M6.7a", effort=0.5, large=1)
@given(case=logits_cases(regimes=("unit",)))
def equal_logits_are_cut_to_no_less_than_k(impl: JudgedImplementation, case: LogitsCase) -> None:
    """Of equal logits at the cut at least k tokens are kept, none below the k-th, all above it."""
    for k in case.cuts:
        seen = impl.call("next_token_distribution", case.levels, 1.0, k, None)
        expect_shape(seen, case.levels.shape, "probabilities")
        kth = -np.sort(-case.levels, axis=-1)[:, k - 1 : k]
        above, kept = case.levels > kth, seen > 0
        expect(not (kept & (case.levels < kth)).any(), f"top_k={k} kept a token below the k-th largest")
        expect(bool(kept[above].all()), f"top_k={k} cut off a token above the k-th largest")
        expect(bool((kept.sum(-1) >= k).all()), f"top_k={k} kept fewer than {k} tokens of several equal ones")
        wanted = case.renormalised(kept)
        expect_close(seen, wanted, "probabilities", factor=impl.factor("next_token_distribution"))


@verifies("M6.7b", effort=0.5, large=1)
@given(case=logits_cases(regimes=("unit",)))
def of_equal_logits_exactly_k_are_kept(impl: JudgedImplementation, case: LogitsCase) -> None:
    """Exactly k tokens are kept, of those equal to the k-th the lowest ids."""
    sampling = oracle_parts(GenerationCase().config).sampling
    for k in case.cuts:
        seen = impl.call("next_token_distribution", case.levels, 1.0, k, None)
        kept = sampling.keep_top_k(case.levels, k)
        row = int(((seen > 0) != kept).any(-1).argmax())
        more, fewer = ids_of((seen > 0) & ~kept, row), ids_of(kept & ~(seen > 0), row)
        expect(not more and not fewer, f"top_k={k} of {case.V} kept tokens {more} in place of {fewer}")


def ids_of(kept: Array, row: int) -> list[int]:
    """Where a row is True."""
    return [int(i) for i in np.flatnonzero(kept[row])]


@verifies("M6.7a")
@given(case=logits_cases(regimes=("unit",)), peak=st.sampled_from((3.0, 30.0)))
def the_likeliest_token_is_always_kept(impl: JudgedImplementation, case: LogitsCase, peak: float) -> None:
    """A token likelier than p is kept alone, and p = 1 keeps all tokens."""
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
    """Each token is drawn at its probability, down to 0.2 %, and steps are independent.

    Of 16384 draws at temperature 1 a token of 0.2 % is expected 33 times: one that never comes is always
    found. One of 3 % that comes half as often as it should is 11 deviations away. Counts are judged by
    their exact probability; a correct implementation is refused in fewer than 1 of 10^9 runs.
    """
    if not impl.offers(architecture.generate):
        return
    component, case, logits = fixed_odds(impl, architecture)
    prompt = np.repeat(case.prompt[:1], ROWS, axis=0)
    for seed, setting in enumerate(SETTINGS):
        note_case(f"{ROWS} rows, seed={seed} {setting}", "drawn")
        found = greedy(component, case, prompt=prompt, method="sample", seed=seed, **setting)
        drawn = np.array([tokens for tokens, _ in found])
        p = distribution(logits, **setting)
        expect_frequencies(drawn, p)
        for step in range(1, drawn.shape[1]):
            same = int((drawn[:, 0] == drawn[:, step]).sum())
            expect_share(same, ROWS, float((p * p).sum()), f"step {step} repeating step 0")


def distribution(logits: Array, max_len: int = 0, **setting: Any) -> Array:
    """(V,) by the reference; the length changes nothing."""
    sampling = oracle_parts(GenerationCase().config).sampling
    p: Array = sampling.next_token_distribution(logits[None], **setting)[0]
    return p


def expect_frequencies(drawn: Array, p: Array) -> None:
    """Tokens that are cut off never appear, the others as often as they should, over all steps (R, n)."""
    counts = np.bincount(drawn.ravel(), minlength=len(p))
    for token, share in enumerate(p):
        what = f"token {token} was drawn, its probability is 0"
        expect(share >= 1e-12 or not counts[token], what)
        if share >= 1e-12:
            expect_share(int(counts[token]), drawn.size, float(share), f"draws of token {token}")


@verifies("M6.7a", effort=0.3)
@given(case=generation_cases())
def draws_repeat_with_their_seed(impl: JudgedImplementation, case: GenerationCase) -> None:
    """The same seed draws the same tokens, and top_k = 1 is greedy for every seed."""
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


@verifies("M6.7a", effort=0.2)
@given(case=generation_cases())
def the_default_seed_is_zero(impl: JudgedImplementation, case: GenerationCase) -> None:
    """What is drawn without a seed is what seed 0 draws."""
    if not impl.offers(case.architecture.generate):
        return
    component, request = case.generator(impl), case.request(method="sample", temperature=1.5)
    seen, wanted = component(**request), component(**request, seed=0)
    for name in ("tokens", "scores"):
        expect(name in seen and name in wanted, f"generate returned no {name}")
        expect_same_bits(seen[name], wanted[name], f"{name} drawn without a seed, beside seed 0")


@verifies("M6.7a")
def seeds_differ(impl: JudgedImplementation, architecture: Architecture) -> None:
    """No two of many seeds draw the same tokens, also where parity or last byte agree.

    The chance that two seeds agree on 128 draws is 0.22^128.
    """
    if not impl.offers(architecture.generate):
        return
    component, case, _ = fixed_odds(impl, architecture)
    prompt = np.repeat(case.prompt[:1], 64, axis=0)
    drawn: dict[tuple[Any, ...], int] = {}
    for seed in SEEDS:
        note_case(f"64 rows, seed {seed}", "drawn")
        found = greedy(component, case, prompt=prompt, method="sample", seed=seed)
        other = drawn.setdefault(tuple(tokens for tokens, _ in found), seed)
        expect(other == seed, f"seeds {other} and {seed} drew the same tokens in all of 64 rows")
