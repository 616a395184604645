"""M6: decoding with a cache says what the full pass says, and costs one token a step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import strategies as st

from attest.boundary import Subject
from attest.checks import expect, expect_refused
from attest.evidence import note_case
from attest.properties import given, stateful, verifies
from attest.strategies.caching import CacheCase, CacheRun, cache_cases, machine_of
from attest.strategies.generation import ROOM
from attest.work import Workload, step_flops, step_seconds

SHORT, LONG = 50, 400


@verifies("M6.3")
@stateful(steps=8, replay="a_script_of_steps_equals_the_full_pass")
def a_cached_step_equals_the_full_pass(impl: Subject) -> Any:
    """A cached step gives the full pass's logits, whatever was started, stepped and reordered before."""
    return machine_of(impl)


@verifies("M6.3", effort=0.5)
@given(case=cache_cases())
def a_script_of_steps_equals_the_full_pass(impl: Subject, case: CacheCase) -> None:
    """A cached step gives the full pass's logits after steps of any sizes, reorders and other starts."""
    CacheRun(impl, case).play(case.script)


@verifies("M6.3", effort=0.3)
@given(case=cache_cases(), first=st.integers(1, ROOM - 1), over=st.sampled_from((1, 1, 3)))
def no_step_beyond_the_last_position(impl: Subject, case: CacheCase, first: int, over: int) -> None:
    """max_len tokens fit; what would go beyond is refused, in one step or after many."""
    for before in ((ROOM,), (first, ROOM - first), (first,), ()):
        run = CacheRun(impl, case)
        run.open()
        for count in before:
            run.step(0, count)
        excess = ROOM - sum(before) + over
        tokens = case.tokens(0, case.B, excess)
        state = run.sessions[0].state
        run.did(f"s0:{excess}")
        what = f"a step of {excess} tokens after {sum(before)}, with max_len={ROOM},"
        expect_refused(partial(run.model.component.step, state, tokens), what)


@verifies("M6.4")
def a_step_works_on_the_new_token_only(impl: Subject) -> None:
    """Counted in floating-point operations where torch computes, by growth of time elsewhere."""
    work = Workload(dtype=impl.dtypes[0])
    seen, needed = step_flops(impl, work, LONG), work.flops_of_a_step
    note_case(f"one step after {LONG} tokens, {work}", "operations" if seen else "seconds")
    if seen:
        expect(
            seen <= 1.5 * needed,
            f"a step after {LONG} tokens took {seen:,} floating-point operations, one new token needs "
            f"{needed:,}; should be at most 1.5 times that",
        )
        return
    longer_source = replace(work, S=LONG)
    for what, long in (("prefix", (work, LONG)), ("source", (longer_source, SHORT))):
        few, many = step_seconds(impl, (work, SHORT), long)
        expect(
            many <= 3 * few,
            f"a step with a {what} of {LONG} tokens took {many / few:.1f} times as long as with {SHORT}, "
            "should be at most 3 times",
        )
