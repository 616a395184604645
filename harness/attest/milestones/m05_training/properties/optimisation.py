"""M5: learning-rate schedules, clipping and Adam."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation, arrays_of, fresh, guarded, quiet
from attest.boundary.training import JudgedOptimizer, finite_number, number_of
from attest.checks.arrays import expect, expect_close, expect_near, expect_same_bits
from attest.checks.training import expect_ratio
from attest.contract import Array, Arrays, Config, float_dtype
from attest.judging.named import ONCE, named
from attest.judging.property import given, verifies
from attest.milestones.m05_training.cases.optimisation import (
    LONG_ADAM,
    MANY_ARRAYS,
    UNLIMITED,
    AdamCase,
    ClippingCase,
    ScheduleCase,
    adam_cases,
    clipping_cases,
    schedule_cases,
)
from attest.outcomes import Expected, NotOffered, Violation
from attest.reference.assembly import Parts
from attest.reference.oracle import EPSILON
from attest.reference.training.optimisation import Moments

# Squares overflow float32 (3.4e38) from 1.8e19 on; the gradients themselves and the clipped ones fit.
HUGE = (1e25, 1e20, 1e30)
SCHEDULES = ("inverse_sqrt", "cosine")


def schedule(impl: JudgedImplementation, config: Config) -> Callable[[int], float]:
    """The rate of a step, as a checked number."""
    component = impl.build("learning_rate", config).component

    def rate(step: int) -> float:
        return finite_number(
            guarded("learning_rate", lambda: component(step=step)), f"the rate of step {step}"
        )

    return rate


def offered_schedules(impl: JudgedImplementation) -> list[str]:
    """One suffices; NotOffered where there is none."""
    found = []
    for name in SCHEDULES:
        try:
            schedule(impl, Config(schedule=name))
            found.append(name)
        except NotOffered:
            continue
    if not found:
        raise NotOffered("neither schedule is offered")
    return found


@verifies("M5.5a", effort=0.5)
@given(case=schedule_cases(warms_up=False))
def without_warm_up_the_rate_starts_at_its_peak(impl: JudgedImplementation, case: ScheduleCase) -> None:
    """With no warm-up the rate starts at its peak, the only finite limit of the formula."""
    rate_follows_its_formula(impl, case)


@verifies("M5.5", effort=0.3)
@given(case=schedule_cases(warms_up=False))
def warm_up_0_is_refused_or_gives_a_rate(impl: JudgedImplementation, case: ScheduleCase) -> None:
    """A warm-up of 0 raises, or every rate is finite and the first is above zero."""
    case = case if case.schedule in offered_schedules(impl) else case.other
    for step in case.steps:
        seen = rate_unless_refused(impl, case.config, step)
        if seen is not None:
            right = math.isfinite(seen) and (seen > 0 or (seen == 0 and step > 1) or case.total == 1)
            what = f"the rate of step {step} with warmup=0 is {seen}"
            expect(right, f"{what}, should be a finite number that is not below 0, or an exception")


def rate_unless_refused(impl: JudgedImplementation, config: Config, step: int) -> float | None:
    """None where the schedule or its call raises."""
    try:
        with quiet():
            return number_of(impl.raw_build("learning_rate", config)(step=step), f"the rate of step {step}")
    except Violation:
        raise
    except Exception:
        return None


@verifies("M5.5")
@given(case=schedule_cases())
def rate_follows_its_formula(impl: JudgedImplementation, case: ScheduleCase) -> None:
    """The rate is the formula's at every corner of the schedule, for every warm-up."""
    case = case if case.schedule in offered_schedules(impl) else case.other
    rate, parts = schedule(impl, case.config), Parts(case.config)
    for step in case.steps:
        expect_ratio(rate(step), parts.schedule(step), 1e-6, f"the rate of step {step}")


@verifies("M5.5", effort=0.5)
@given(case=schedule_cases())
def rate_is_positive_and_largest_after_the_warm_up(impl: JudgedImplementation, case: ScheduleCase) -> None:
    """The rate is above zero, rises to the end of the warm-up and falls from there."""
    case = case if case.schedule in offered_schedules(impl) else case.other
    rate = schedule(impl, case.config)
    if case.total > 1:
        expect(rate(1) > 0, f"the rate of step 1 is {rate(1):g}, should be above 0")
    peak = max(case.warmup, 1)
    for earlier, later in zip(case.steps, case.steps[1:]):
        rises = later <= peak
        right = (
            rate(later) >= rate(earlier) * (1 - 1e-9) if rises else rate(later) <= rate(earlier) * (1 + 1e-9)
        )
        if rises or earlier >= peak:
            way = "rise up to" if rises else "fall from"
            expect(right, f"the rate goes from {rate(earlier):g} at step {earlier} to {rate(later):g} at "
                   f"step {later}, should {way} step {peak}")  # fmt: skip


def clipped(impl: JudgedImplementation, case: ClippingCase, gradients: Arrays) -> dict[str, Array]:
    """What clip_gradients returns."""
    component = impl.build("clip_gradients", case.config).component
    found = guarded("clip_gradients", lambda: component(gradients=gradients))
    return arrays_of(found, "clip_gradients")


@verifies("M5.6a")
@given(case=clipping_cases())
def clipping_keeps_the_direction(impl: JudgedImplementation, case: ClippingCase) -> None:
    """All arrays are multiplied by one factor, from their common norm; the arguments stay as they were."""
    given_ = fresh(case.gradients)
    expect_clipped(clipped(impl, case, given_), case)
    for name, g in case.gradients.items():
        expect_same_bits(given_[name], g, f"the argument {name}")


@verifies("M5.6a", effort=ONCE)
@given(case=named(*MANY_ARRAYS))
def many_arrays_are_clipped_together(impl: JudgedImplementation, case: ClippingCase) -> None:
    """20 arrays are multiplied by one factor."""
    clipping_keeps_the_direction(impl, case)


@verifies("M5.6a", effort=ONCE)
@given(case=named(UNLIMITED))
def an_infinite_limit_clips_nothing(impl: JudgedImplementation, case: ClippingCase) -> None:
    """clip_norm = inf leaves every gradient as it is: inf over inf is no factor."""
    clipping_keeps_the_direction(impl, case)


@verifies("M5.6e")
def nothing_to_clip_is_no_error(impl: JudgedImplementation) -> None:
    """No arrays go in and none come out."""
    seen = clipped(impl, ClippingCase(dtype=impl.dtypes[0]), {})
    expect(not seen, f"clip_gradients of no arrays returned {sorted(seen)}")


def expect_clipped(seen: Arrays, case: ClippingCase) -> None:
    """g * min(1, limit / norm), and a norm of at most the limit."""
    factor = min(1.0, case.limit / case.length) if case.length else 1.0
    for name, g in case.gradients.items():
        expect(name in seen, f"clip_gradients returned no {name}")
        largest = factor * float(np.max(np.abs(g))) + 1e-30
        expect_near(seen[name], factor * g.astype(np.float64), 1e-5 * largest, f"the clipped {name}")
    norm = math.sqrt(sum(float(np.square(g.astype(np.float64)).sum()) for g in seen.values()))
    expect(
        norm <= case.limit * (1 + 1e-5),
        f"the norm after clipping is {norm:g}, should be at most {case.limit:g}",
    )


@verifies("M5.6c", effort=0.5)
@given(case=clipping_cases(lengths=HUGE))
def clipping_holds_where_squares_overflow(impl: JudgedImplementation, case: ClippingCase) -> None:
    """Clipping is right where gradients fit into float32 and their squares do not."""
    expect_clipped(clipped(impl, case, fresh(case.gradients)), case)


@verifies("M5.6a")
@given(case=clipping_cases(), share=st.sampled_from((0.999, 0.5, 1e-3, 0.0)))
def short_gradients_come_back_unchanged(impl: JudgedImplementation, case: ClippingCase, share: float) -> None:
    """Gradients below the limit come back the same to the bit, zeros included."""
    factor = share * case.limit / case.length if case.length else 0.0
    short = {name: (g * factor).astype(g.dtype) for name, g in case.gradients.items()}
    seen = clipped(impl, case, fresh(short))
    for name, g in short.items():
        expect(name in seen, f"clip_gradients returned no {name}")
        expect_same_bits(seen[name], g, f"the unclipped {name}")


def expect_adam(impl: JudgedImplementation, case: AdamCase) -> JudgedOptimizer:
    """Follow the optimiser through the case's steps."""
    parameters = case.parameters()
    optimizer = JudgedOptimizer(impl, case.config, parameters, case.architecture)
    follow(optimizer, case, parameters)
    return optimizer


def follow(optimizer: JudgedOptimizer, case: AdamCase, parameters: Arrays) -> None:
    """Each step is judged from where the optimiser stands; the entries of a gradient differ in size."""
    adam, moments, eps = Parts(case.config).adam, Moments(), EPSILON[case.dtype]
    before = dict(parameters)
    for step, rate in enumerate(case.rates):
        gradients = case.gradients(step)
        wanted = adam.adam_step(before, moments, gradients, rate)
        optimizer.step(gradients, rate)
        after = optimizer.parameters()
        for name, value in wanted.items():
            expect(name in after, f"the optimiser has no {name}")
            allowed = 16 * eps * np.abs(value) + 128 * eps * rate + 1e-30
            expect_close(after[name], Expected(value, allowed), f"{name} after step {step + 1}")
        before = dict(after)


@verifies("M5.6b", effort=0.5)
@given(case=adam_cases())
def the_optimiser_is_adam(impl: JudgedImplementation, case: AdamCase) -> None:
    """Both moments are corrected, epsilon is outside the root, and nothing decays."""
    expect_adam(impl, case)


@verifies("M5.6b", effort=ONCE)
@given(case=named(LONG_ADAM))
def the_optimiser_stays_adam(impl: JudgedImplementation, case: AdamCase) -> None:
    """Adam's formula holds over 40 steps, with the same constants throughout."""
    expect_adam(impl, case)


@verifies("M5.6b", effort=0.25)
@given(case=adam_cases())
def load_forgets_the_moments(impl: JudgedImplementation, case: AdamCase) -> None:
    """The first step after load equals the first step of a new optimiser."""
    optimizer = expect_adam(impl, case)
    parameters = case.parameters(2)
    optimizer.load(parameters)
    follow(optimizer, case.but(seed=case.seed + 1, count=2), parameters)


@verifies("M5.6b", effort=0.25)
@given(case=adam_cases())
def a_zero_gradient_changes_nothing(impl: JudgedImplementation, case: AdamCase) -> None:
    """A first gradient of zero leaves every parameter as it was: nothing decays."""
    parameters = case.parameters()
    optimizer = JudgedOptimizer(impl, case.config, parameters, case.architecture)
    zeros = {name: np.zeros_like(x, dtype=float_dtype(case.dtype)) for name, x in parameters.items()}
    for rate in case.rates[:2]:
        optimizer.step(zeros, rate)
    for name, value in optimizer.parameters().items():
        expect_same_bits(value, parameters[name], f"{name} after a zero gradient")
