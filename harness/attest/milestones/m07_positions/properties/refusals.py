"""M7: configs that make no sense are refused, and so are widths that cannot be turned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_refused, expect_refused_by_name
from attest.contract import Config, float_dtype
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.rotary import RotaryCase, rotary_cases
from attest.milestones.m07_positions.cases.self_attention import SelfAttentionCase, self_attention_cases
from attest.outcomes import NotClaimed

# The argument, and values that it cannot have; of key heads more than there are heads never divide them.
WRONG: dict[str, tuple[Any, ...]] = {
    "positions": ("rope", "RoPE", "", "absolute"),
    "rotary_fraction": (1.5, 0.0, -0.5),
    "rotary_base": (0.0, -1.0),
    "num_kv_heads": (7, 0, -1),
}


def wrongs(*names: str) -> st.SearchStrategy[str]:
    """Arguments with a wrong value, as one word."""
    return st.sampled_from([f"{name}={value}" for name in names for value in WRONG[name]])


def changed(config: Config, wrong: str) -> tuple[str, Config]:
    """The argument, and the config with that value."""
    name, _, word = wrong.partition("=")
    value = next(v for v in WRONG[name] if str(v) == word)
    return name, config.but(**{name: value})


def attended(impl: JudgedImplementation, case: SelfAttentionCase, config: Config) -> Callable[[], Any]:
    """Build with this config, and call."""
    return lambda: impl.raw_build(case.operation, config)(**case.inputs)


@verifies("M7.18")
@given(case=self_attention_cases(schemes=("rotary",)), wrong=wrongs(*WRONG))
def a_config_without_a_meaning_is_refused(
    impl: JudgedImplementation, case: SelfAttentionCase, wrong: str
) -> None:
    """On construction or by the first call, not taken for another."""
    _, config = changed(case.config, wrong)
    expect_refused(claimed(impl, case, config), f"{wrong} with num_heads={case.H}")


def claimed(impl: JudgedImplementation, case: SelfAttentionCase, config: Config) -> Callable[[], Any]:
    """The call, NotClaimed where the builder is not to be asked."""
    if outside := impl.claims.refusal_asked(case.operation, config):
        raise NotClaimed(outside)
    return attended(impl, case, config)


@verifies("M7.18a")
@given(case=self_attention_cases(schemes=("rotary",)), wrong=wrongs(*WRONG))
def the_refusal_names_the_argument(impl: JudgedImplementation, case: SelfAttentionCase, wrong: str) -> None:
    """A ValueError whose message holds the name of the argument."""
    name, config = changed(case.config, wrong)
    expect_refused_by_name(claimed(impl, case, config), wrong, name)


@verifies("M7.18", effort=0.5)
@given(case=rotary_cases(), width=st.sampled_from((1, 3, 7)))
def an_odd_width_is_refused(impl: JudgedImplementation, case: RotaryCase, width: int) -> None:
    """Features that cannot form pairs are refused by `rotary`, and by heads that would turn them."""
    if not impl.offers(case.operation):
        return
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
    odd = case.but(d=width)
    expect_refused(attended(impl, odd, odd.config), f"rotary positions in heads of width {width}")
