"""M8: attention that looks back a few positions."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_refused, expect_same_bits
from attest.judging.laws import FORMULA, GRADIENTS
from attest.judging.property import given, verifies
from attest.milestones.m08_attention_variants.cases.heads import HeadsCase, called, heads_cases
from attest.outcomes import Expected

WINDOWS = ("2", "3", "1", "T-1", "T", "T+1", "T+9")
# Beside and beyond the tiles of kernels, and beyond what was hard-coded (NVIDIA-NeMo/Megatron-Bridge#2656).
WIDE = ("129", "65", "100", "33", "127", "128")
LONG = 150


def plain_windows() -> st.SearchStrategy[HeadsCase]:
    """Positions that follow each other, and no mask beside the window."""
    return heads_cases(window=WINDOWS, masks=("none",), at=("counted", "shifted"), regimes=("unit", "init"))


@verifies("M8.4", large=1)
@given(case=heads_cases(window=WINDOWS))
def windowed_attention_equals_its_formula(impl: JudgedImplementation, case: HeadsCase) -> None:
    """A query sees its own position and the W - 1 before it, by the positions that are given."""
    FORMULA.check(impl, case)


@verifies("M8.4")
@given(case=plain_windows(), which=st.integers(0, 10))
def a_key_is_seen_for_a_window_and_no_longer(impl: JudgedImplementation, case: HeadsCase, which: int) -> None:
    """A changed token moves the outputs of the W positions from its own on, and no bit of any other."""
    case = case.sharpest(impl)
    place, component = which % case.T, case.loaded(impl)
    x = case.inputs["x"].copy()
    x[:, place] = case.draw(case.rng(7), case.B, case.D)
    before, after = (component(**case.with_inputs(x=given))["output"] for given in (case.inputs["x"], x))
    reached = (np.arange(case.T) >= place) & (np.arange(case.T) < place + case.W)
    expect_same_bits(after[:, ~reached], before[:, ~reached], f"output beyond the window of token {place}")
    still = [int(t) for t in np.flatnonzero(reached) if (after[:, t] == before[:, t]).all()]
    expect(not still, f"output at {still} does not see token {place} within a window of {case.W}, should")


def wide_windows() -> st.SearchStrategy[HeadsCase]:
    """Windows of up to 129 positions in a sequence of 150."""
    drawn = heads_cases(window=WIDE, masks=("none",), at=("counted", "shifted"), regimes=("unit", "init"))
    return drawn.map(lambda case: case.but(B=1, T=LONG))


@verifies("M8.4", effort=0.5)
@given(case=wide_windows(), place=st.integers(0, 20))
def a_wide_window_is_exact(impl: JudgedImplementation, case: HeadsCase, place: int) -> None:
    """Beyond the sizes of tiles too the output is that of the formula, and nothing sees further."""
    FORMULA.check(impl, case)
    component, x = case.loaded(impl), case.inputs["x"].copy()
    x[:, place] = case.draw(case.rng(7), case.B, case.D)
    before, after = (component(**case.with_inputs(x=given))["output"] for given in (case.inputs["x"], x))
    beyond = np.arange(case.T) >= place + case.W
    expect_same_bits(after[:, beyond], before[:, beyond], f"output beyond the window of token {place}")


@verifies("M8.4", effort=0.5)
@given(case=heads_cases(window=("1",), masks=("none",)))
def a_window_of_one_returns_the_own_value(impl: JudgedImplementation, case: HeadsCase) -> None:
    """The only weight is 1: the output is W_O applied to the position's own values."""
    c, p = case.config, {n: v.astype(np.float64) for n, v in case.parameters.items()}
    value = case.inputs["x"] @ p["value.weight"].T + p.get("value.bias", 0.0)
    heads = value.reshape(case.B, case.T, c.kv_heads, c.d_head)
    joined = np.repeat(heads, c.num_heads // c.kv_heads, axis=2).reshape(case.B, case.T, -1)
    own = joined @ p["output.weight"].T + p.get("output.bias", 0.0)
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    wanted = Expected(own, case.output.bound)
    expect_close(seen, wanted, "output of a window of 1", factor=2 * component.widening)


@verifies("M8.4", effort=0.5)
@given(case=heads_cases(window=("T", "T+1", "T+9"), masks=("none",), at=("counted",), causal=True))
def a_wide_window_is_causal_attention(impl: JudgedImplementation, case: HeadsCase) -> None:
    """A window of the whole length hides nothing but the future."""
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    plain = case.with_option(window=None)
    wanted = Expected(called(impl, plain, case.parameters).astype(np.float64), case.output.bound)
    what = f"output of a window of {case.W} over {case.T} positions"
    expect_close(seen, wanted, what, factor=2 * component.widening)


@verifies("M8.4", effort=0.5)
@given(case=heads_cases(window=("2", "3", "T-1"), masks=("none", "keys")), other=st.sampled_from((1, 2, 4)))
def two_windows_in_turn(impl: JudgedImplementation, case: HeadsCase, other: int) -> None:
    """A component with another window, called between two calls, changes neither."""
    if case.fixed:
        return
    component, second = case.loaded(impl), case.with_option(window=other)
    before = component(**case.inputs)["output"]
    FORMULA.check(impl, second)
    after = component(**case.inputs)["output"]
    expect_same_bits(after, before, f"output of a window of {case.W} after one of {other}")
    expect_close(after, case.output, "output", factor=component.widening)


def two_sided(word: str) -> st.SearchStrategy[HeadsCase]:
    """Windows that reach as far behind the query as before it."""
    return heads_cases(
        window=WINDOWS, wants="window_sides:both", masks=(word,), regimes=("unit", "saturated")
    )


@verifies("M8.4a")
@given(case=st.one_of(two_sided("none"), two_sided("pairs")))
def two_sided_windows_equal_their_formula(impl: JudgedImplementation, case: HeadsCase) -> None:
    """A query sees the positions that lie less than W from its own, on either side."""
    FORMULA.check(impl, case)


@verifies("M8.4a")
@given(
    case=heads_cases(
        window=WINDOWS, wants="window_sides:both", masks=("none",), at=("counted",), causal=False
    ),
    which=st.integers(0, 10),
)
def a_key_is_seen_from_both_sides(impl: JudgedImplementation, case: HeadsCase, which: int) -> None:
    """A changed token moves its own output and those of W - 1 positions on either side, and no bit beyond."""
    case = case.sharpest(impl)
    place, component = which % case.T, case.loaded(impl)
    x = case.inputs["x"].copy()
    x[:, place] = case.draw(case.rng(7), case.B, case.D)
    before, after = (component(**case.with_inputs(x=given))["output"] for given in (case.inputs["x"], x))
    reached = np.abs(np.arange(case.T) - place) < case.W
    expect_same_bits(after[:, ~reached], before[:, ~reached], f"output beyond the window of token {place}")


@verifies("M8.16", effort=0.5)
@given(case=heads_cases(window=WINDOWS))
def gradients_of_windowed_attention(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Keys beyond the window have no part in them."""
    GRADIENTS.check(impl, case)


@verifies("M8.17", effort=0.5)
@given(case=heads_cases(window=("2",)), wrong=st.sampled_from((0, -2, 1.5, "3")))
def a_window_that_is_no_size_is_refused(impl: JudgedImplementation, case: HeadsCase, wrong: object) -> None:
    """A window of 0 or less sees nothing: the builder or the first call raises."""
    config = case.config.but(window=wrong)
    what = f"window={wrong!r}"
    expect_refused(lambda: impl.raw_build("self_attention", config)(**case.inputs), what)
