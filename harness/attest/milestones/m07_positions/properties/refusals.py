"""M7: configs that make no sense are refused, and so are widths that cannot be turned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_refused, expect_refused_by_name
from attest.contract import Config, float_dtype
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.rotary import RotaryCase, rotary_cases
from attest.milestones.m07_positions.cases.scaling import ScaledCase, scaled_cases
from attest.milestones.m07_positions.cases.self_attention import SelfAttentionCase, self_attention_cases
from attest.milestones.m07_positions.checks import leave_out_unless_offered

# The argument, and values that it cannot have; of key heads more than there are heads never divide them.
WRONG: dict[str, tuple[Any, ...]] = {
    "positions": ("rope", "RoPE", "", "absolute"),
    "rotary_fraction": (1.5, 0.0, -0.5),
    "rotary_base": (0.0, -1.0),
    "num_kv_heads": (7, 0, -1),
}


def asked(impl: JudgedImplementation, case: SelfAttentionCase) -> Iterator[tuple[str, str, Config]]:
    """The argument, its wrong value in words and the config, for the options that are claimed."""
    for name, values in WRONG.items():
        for value in values:
            config = case.config.but(**{name: value})
            if not impl.claims.refusal_asked(case.operation, config):
                yield name, f"{name}={value!r} with num_heads={case.H}", config


def attended(impl: JudgedImplementation, case: SelfAttentionCase, config: Config) -> Callable[[], Any]:
    """Build with this config, and call."""
    return lambda: impl.raw_build(case.operation, config)(**case.inputs)


@verifies("M7.18", effort=0.3)
@given(case=self_attention_cases(schemes=("rotary",)))
def a_config_without_a_meaning_is_refused(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """On construction or by the first call, not taken for another."""
    leave_out_unless_offered(impl, case.operation)
    for _, what, config in asked(impl, case):
        expect_refused(attended(impl, case, config), what)


def turned(impl: JudgedImplementation, case: ScaledCase, config: Config) -> Callable[[], Any]:
    """Build with this config, and call."""
    return lambda: impl.raw_build(case.operation, config)(**case.inputs)


NONSENSE: tuple[dict[str, Any], ...] = (
    {"rotary_scaling": "ntk"},
    {"rotary_scaling": "LLAMA3"},
    {"rotary_scaling": "linear", "rotary_factor": 0.0},
    {"rotary_scaling": "llama3", "rotary_factor": -8.0},
    {"rotary_scaling": "llama3", "rotary_slow_turns": 32.0, "rotary_fast_turns": 4.0},
    {"rotary_scaling": "yarn", "rotary_slow_turns": 4.0, "rotary_fast_turns": 4.0},
)


@verifies("M7.18", effort=0.3)
@given(case=scaled_cases())
def a_rule_without_a_meaning_is_refused(impl: JudgedImplementation, case: ScaledCase) -> None:
    """A rule that is not known, a factor that is not above 0, slow pairs that turn as often as fast ones."""
    leave_out_unless_offered(impl, case.operation)
    for changes in NONSENSE:
        config = case.config.but(**changes)
        if not impl.claims.refusal_asked(case.operation, config):
            what = ", ".join(f"{name}={value!r}" for name, value in changes.items())
            expect_refused(turned(impl, case, config), what)


BUCKETS: tuple[dict[str, Any], ...] = (
    {"relative_buckets": 1, "relative_distance": 128},
    {"relative_buckets": 8, "relative_distance": 1},
    {"relative_buckets": 32, "relative_distance": 16},
)


@verifies("M7.18", effort=0.3)
@given(case=self_attention_cases(schemes=("relative",)))
def buckets_without_far_distances_are_refused(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """One bucket, and a distance within those that have a bucket each: no distance would share one."""
    leave_out_unless_offered(impl, case.operation)
    for changes in BUCKETS:
        config = case.config.but(**changes)
        if not impl.claims.refusal_asked(case.operation, config):
            what = ", ".join(f"{name}={value!r}" for name, value in changes.items())
            expect_refused(attended(impl, case, config), what)


@verifies("M7.18a", effort=0.3)
@given(case=self_attention_cases(schemes=("rotary",)))
def the_refusal_names_the_argument(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """A ValueError whose message holds the name of the argument."""
    for name, what, config in asked(impl, case):
        expect_refused_by_name(attended(impl, case, config), what, name)


@verifies("M7.18", effort=0.5)
@given(case=rotary_cases(), width=st.sampled_from((1, 3, 7)))
def an_odd_width_is_refused(impl: JudgedImplementation, case: RotaryCase, width: int) -> None:
    """Features that cannot form pairs are refused by `rotary`, and by heads that would turn them."""
    leave_out_unless_offered(impl, case.operation)
    component = case.loaded(impl)
    x = np.ones((case.B, case.H, case.T, width), float_dtype(case.dtype))
    what = f"rotary_fraction={case.config.rotary_fraction} of {width} features"
    expect_refused(lambda: component.component(x=x, positions=case.positions), what)


@verifies("M7.18", effort=0.5)
@given(case=self_attention_cases(schemes=("rotary",)), width=st.sampled_from((1, 3, 7)))
def heads_of_an_odd_width_are_refused(
    impl: JudgedImplementation, case: SelfAttentionCase, width: int
) -> None:
    """On construction or by the first call."""
    leave_out_unless_offered(impl, case.operation)
    odd = case.but(d=width)
    expect_refused(attended(impl, odd, odd.config), f"rotary positions in heads of width {width}")
