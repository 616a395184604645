"""M6: what a caller gives and gets stays the caller's own, and a refusal changes nothing.

Shapes: prompt (B, S), tokens (B, n), logits (B, n, V) of a step and (B, V) to draw from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation, aligned, array_of, guarded
from attest.checks.arrays import expect, expect_same_bits
from attest.checks.side_effects import changed_since, expect_no_side_effects, global_state, undisturbed
from attest.contract import Architecture, Array
from attest.evidence import note_case
from attest.judging.property import given, verifies
from attest.milestones.m06_generation.cases.caching import CacheCase, cache_cases
from attest.milestones.m06_generation.cases.generation import GenerationCase, generation_cases
from attest.milestones.m06_generation.cases.sampling import LogitsCase, logits_cases
from attest.milestones.m06_generation.properties.generation import nonsense, plain_case, training_flag

Kept = list[tuple[str, Array, Array]]  # what it is, the caller's own array, and a copy from when it was new


@verifies("M6.11", effort=0.2)
@given(case=generation_cases(min_rows=2))
def generation_leaves_no_trace(impl: JudgedImplementation, case: GenerationCase) -> None:
    """The prompt, the random state, the flags and the answers given before are as they were."""
    for method in ("greedy", "beam", "sample"):
        expect_no_side_effects(case.generator(impl), case.request(method=method))


@verifies("M6.11")
def a_refusal_leaves_no_trace(impl: JudgedImplementation, architecture: Architecture) -> None:
    """A refused request leaves the training mode, the random state and the next answer as they were."""
    case = plain_case(impl, architecture)
    component = case.generator(impl)
    wanted = component(**case.request())
    for what, (changes, _) in nonsense(case).items():
        note_case(what, "refusal")
        expect_mode_kept(component, case.request(**changes), what, case.seed)
    component.eval()
    seen = component(**case.request())
    for name in ("tokens", "scores"):
        expect_same_bits(seen[name], wanted[name], f"{name} after requests that were refused")


def expect_mode_kept(component: JudgedComponent, request: dict[str, Any], what: str, seed: int) -> None:
    """Asked in train mode. Whether it is refused is for another criterion to say."""
    component.train(seed)
    before, flag = global_state(), training_flag(component.component)
    component.accepted(**request)
    now = training_flag(component.component)
    expect(now == flag, f"training was {flag} before a request for {what} and {now} after it")
    changed = changed_since(before)
    expect(not changed, f"a request for {what} changed {', '.join(changed)}")


@verifies("M6.11", effort=0.3)
@given(case=cache_cases(scripted=False))
def steps_leave_no_trace(impl: JudgedImplementation, case: CacheCase) -> None:
    """Logits kept from a step outlast the steps, the reorder and the start that follow."""
    if not impl.offers(case.architecture.operation):
        return
    model = case.model(impl)
    if not hasattr(model.component, "start"):
        return
    kept: Kept = []
    state = started(model, case, 0, kept)
    for turn, count in enumerate((2, 1, 1, 2)):
        state = stepped(model, state, case.tokens(turn, case.B, count), kept)
    if model.reorders:
        rows = hold("the rows given to reorder", np.arange(case.B)[::-1].copy(), kept)
        state = guarded(f"{model.operation}.reorder", lambda: model.component.reorder(state, rows))
    stepped(model, state, case.tokens(4, case.B, 1), kept)
    stepped(model, started(model, case, 1, kept), case.tokens(5, case.B, 2), kept)
    for what, array, copy in kept:
        expect_same_bits(array, copy, what)


def hold(what: str, array: Array, kept: Kept) -> Array:
    """Remember what an array says now."""
    kept.append((what, array, array.copy()))
    return array


def started(model: JudgedComponent, case: CacheCase, salt: int, kept: Kept) -> Any:
    """The state of the bare component."""
    given_ = case.architecture.beginning(aligned(case.another_prompt(salt)))
    if isinstance(given_, np.ndarray):
        hold(f"the {case.architecture.prompt} given to start", given_, kept)
    return undisturbed(f"{model.operation}.start", lambda: model.component.start(given_))


def stepped(model: JudgedComponent, state: Any, tokens: Array, kept: Kept) -> Any:
    """The next state; the logits are held as they came."""
    given_ = hold("the tokens given to a step", aligned(tokens), kept)
    pair = undisturbed(f"{model.operation}.step", lambda: model.component.step(state, given_))
    whole = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], np.ndarray)
    expect(whole, f"{model.operation}.step returned something else than a pair of logits and state")
    hold("the logits kept from an earlier step", pair[0], kept)
    return pair[1]


@verifies("M6.11", effort=0.5)
@given(case=logits_cases(regimes=("unit",)))
def the_distribution_leaves_no_trace(impl: JudgedImplementation, case: LogitsCase) -> None:
    """The logits given and the probabilities returned before are as they were, with and without limits."""
    if not impl.offers("next_token_distribution"):
        return
    label, function = "next_token_distribution", impl.implementation.next_token_distribution
    for one in (case, case.but(top_k=1), case.but(top_p=0.6), case.but(temperature=0.0)):
        logits, *rest = one.arguments
        given_, other = aligned(logits), aligned(logits[:, ::-1])
        seen = undisturbed(label, lambda: function(given_, *rest))  # noqa: B023
        copy = array_of(seen, label)
        expect_same_bits(given_, logits, "the logits given")
        expect(not np.shares_memory(seen, given_), "the probabilities share memory with the logits given")
        guarded(label, lambda: function(other, *rest))  # noqa: B023
        expect_same_bits(np.asarray(seen), copy, "the probabilities kept from an earlier call")
