"""M6: decoding with a cache says what the full pass says, and costs one token a step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.boundary.training import JudgedTrainer
from attest.checks.arrays import expect, expect_close, expect_refused
from attest.contract import Architecture
from attest.evidence import note_case
from attest.judging.cost import Workload, step_flops, step_seconds
from attest.judging.named import ONCE, named
from attest.judging.options import takes
from attest.judging.property import given, stateful, verifies
from attest.milestones.m06_generation.cases.caching import (
    LONG_SCRIPTS,
    CacheCase,
    CacheRun,
    cache_cases,
    machine_of,
)
from attest.milestones.m06_generation.cases.generation import ROOM
from attest.outcomes import NotClaimed
from attest.reference.oracle import expected

SHORT, LONG = 50, 400


def _ways() -> st.SearchStrategy[str]:
    """By which method a session goes on."""
    return st.sampled_from(("step", "reorder"))


@verifies("M6.3")
@stateful(steps=8, replay="a_script_of_steps_equals_the_full_pass")
def a_cached_step_equals_the_full_pass(impl: JudgedImplementation, architecture: Architecture) -> Any:
    """A cached step gives the logits of the full pass after any starts, steps and reorders."""
    return machine_of(impl, architecture)


@verifies("M6.3", effort=0.5)
@given(case=cache_cases())
def a_script_of_steps_equals_the_full_pass(impl: JudgedImplementation, case: CacheCase) -> None:
    """A cached step gives the full pass's logits after steps of any sizes, reorders and other starts."""
    CacheRun(impl, case).play(case.script)


@verifies("M6.3", effort=ONCE)
@given(case=named(*LONG_SCRIPTS))
def a_long_script_equals_the_full_pass(impl: JudgedImplementation, case: CacheCase) -> None:
    """Nothing is forgotten within 70 tokens or six layers, in one row or several."""
    CacheRun(impl, case).play(case.script)


@verifies("M6.3b", effort=0.5)
@given(case=cache_cases(scripted=False), first=_ways(), second=_ways())
def a_used_state_is_refused_or_true(
    impl: JudgedImplementation, case: CacheCase, first: str, second: str
) -> None:
    """A state is taken twice: each of the two ways to go on is refused, or says what the full pass says."""
    run = CacheRun(impl, case, shows_script=False)
    run.open()
    run.step(0, 2)
    old = run.fork(0)
    expect(run.goes_on(0, first), f"a {first} of a new state was refused")
    run.goes_on(old, second)
    run.goes_on(0, "step")


@verifies("M6.3", effort=0.3)
@given(case=cache_cases(scripted=False))
def a_start_follows_the_parameters(impl: JudgedImplementation, case: CacheCase) -> None:
    """A prompt started again after a load is read with the loaded parameters."""
    model = case.model(impl)
    expect_cached(model, case)
    model.load(case.but(seed=case.seed + 1).parameters)
    expect_cached(model, case)


@verifies("M6.3", effort=0.2)
@given(case=cache_cases(scripted=False))
def a_start_follows_training(impl: JudgedImplementation, case: CacheCase) -> None:
    """A prompt started again after steps of the trainer is read with the trained parameters."""
    architecture, config = case.architecture, case.config.but(dropout=0.0, warmup=1)
    if case.fixed or not takes(impl, architecture.trainer, config):
        return  # where every config costs a build, a trainer of this one would too
    trainer = JudgedTrainer(impl, config, case.parameters, architecture)
    expect_cached(trainer.model, case)
    for turn in range(2):
        written = case.tokens(turn, case.B, 5)
        written[:, 0], written[:, -1] = config.bos_id, config.eos_id
        trainer.step(architecture.reading(case.prompt, written))
        expect_cached(trainer.model, case)


def expect_cached(model: JudgedComponent, case: CacheCase) -> None:
    """Start and step give what the full pass gives with the parameters of the moment."""
    architecture, tokens = case.architecture, case.tokens(0, case.B, 3)
    inputs = architecture.reading(case.prompt, tokens)
    wanted = expected(architecture.operation, case.config, model.parameters(), inputs)["logits"]
    model.eval()
    seen, _ = model.step(model.start(architecture.beginning(case.prompt)), tokens)
    expect_close(seen, wanted, "the logits of a cached step", factor=2 * model.widening)


@verifies("M6.3", effort=0.3)
@given(case=cache_cases(), first=st.integers(1, ROOM - 1), over=st.sampled_from((1, 1, 3)))
def no_step_beyond_the_last_position(
    impl: JudgedImplementation, case: CacheCase, first: int, over: int
) -> None:
    """max_len tokens fit; a step beyond them is refused, whether in one step or after many."""
    if not case.config.ends_at_max_len:
        raise NotClaimed(f"positions={case.config.positions!r} have no last position")
    case = case.but(padding="none")  # which takes no position
    for before in ((ROOM,), (first, ROOM - first), (first,), ()):
        run = CacheRun(impl, case, shows_script=False)
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
def a_step_works_on_the_new_token_only(impl: JudgedImplementation, architecture: Architecture) -> None:
    """The work of a step is that of the new token, not of the whole prefix."""
    work = Workload(architecture=architecture).fitted(impl)
    # Where torch computes, its operations can be counted; a time would be noise on a loaded machine.
    seen, needed = step_flops(impl, work, LONG), work.flops_of_a_step
    note_case(f"one step after {LONG} tokens, {work}", "operations" if seen else "seconds")
    if seen:
        expect(
            seen <= 1.5 * needed,
            f"a step after {LONG} tokens took {seen:,} floating-point operations, one new token needs "
            f"{needed:,}; should be at most 1.5 times that",
        )
        return
    longer = {"prefix": (work, LONG)}
    if not architecture.starts_from_rows:
        longer[architecture.prompt] = (replace(work, S=LONG), SHORT)
    for what, long in longer.items():
        few, many = step_seconds(impl, (work, SHORT), long)
        expect(
            many <= 3 * few,
            f"a step with a {what} of {LONG} tokens took {many / few:.1f} times as long as with {SHORT}, "
            "should be at most 3 times",
        )
