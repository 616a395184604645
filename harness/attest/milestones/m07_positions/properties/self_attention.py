"""M7: self-attention with positions that act inside it."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_shape
from attest.judging.laws import FORMULA, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.self_attention import SelfAttentionCase, self_attention_cases
from attest.milestones.m07_positions.checks import expect_alibi, expect_the_same_in_training, most_moved
from attest.outcomes import Expected, NotClaimed

SHIFTS = (1, 300, 9_999, 100_000)  # float32 angles are judged up to 300
UNIT = ("unit",)
ROTARY, ALIBI, RELATIVE, NONE = ("rotary",), ("alibi",), ("relative",), ("none",)

law_holds(
    FORMULA,
    "M7.12",
    self_attention_cases(),
    "self_attention",
    name="self_attention_equals_its_formula",
    sentence="With every kind of positions that is claimed, given, shifted, with gaps or counted from 0.",
)
law_holds(
    FORMULA,
    "M7.4",
    self_attention_cases(schemes=ROTARY),
    "self_attention",
    name="queries_and_keys_are_turned",
    sentence="Self-attention with turned queries and keys equals its formula.",
)
law_holds(
    FORMULA,
    "M7.7",
    self_attention_cases(schemes=ROTARY, wants=",qk_norm:true", min_length=2),
    "self_attention",
    name="the_norm_comes_before_the_rotation",
    sentence="Queries and keys go through RMSNorm, head by head, each with its gains, and are then turned.",
)
law_holds(
    FORMULA,
    "M7.7",
    self_attention_cases(
        schemes=ROTARY, wants=",qk_norm:true,norm_eps:0.001", kinds=("unit", "init", "tiny")
    ),
    "self_attention",
    name="the_norm_of_heads_has_the_eps_of_the_config",
    sentence="The norm of queries and keys adds the norm_eps that is configured, not one of its own.",
    effort=0.5,
)
law_holds(
    FORMULA,
    "M7.9",
    self_attention_cases(schemes=ALIBI, min_length=2),
    "self_attention",
    name="attention_with_alibi_equals_its_formula",
    sentence="The scaled scores minus slope times distance, at given positions and at counted ones.",
)
law_holds(
    FORMULA,
    "M7.11",
    self_attention_cases(schemes=RELATIVE, min_length=2),
    "self_attention",
    name="attention_with_relative_positions_equals_its_formula",
    sentence="The scaled scores plus the number of the bucket, of one side where attention is causal.",
)


@verifies("M7.3")
@given(
    case=self_attention_cases(schemes=ROTARY, min_length=2), shift=st.sampled_from((1, 300, 9_999, 100_000))
)
def attention_sees_distances_alone(impl: JudgedImplementation, case: SelfAttentionCase, shift: int) -> None:
    """The same tokens, all so many positions on, have the same output."""
    case = case.sharpest(impl)
    component, far = case.loaded(impl), case.moved(shift if impl.sharpest == "float64" else min(shift, 300))
    before = component(**case.moved(0))["output"].astype(np.float64)
    expect_shape(before, case.output.value.shape, "output")
    wanted = Expected(before, case.output_for(case.moved(0)).bound + case.output_for(far).bound)
    seen = component(**far)["output"]
    expect_close(seen, wanted, f"output {shift} positions on", factor=component.widening)


@verifies("M7.4")
@given(case=self_attention_cases(schemes=ROTARY, masks=("none",), min_length=2))
def values_are_not_turned(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """A token that sees itself alone gives its value, wherever it stands."""
    component = case.loaded(impl)
    here, there = (case.seeing_itself(case.positions + shift) for shift in (0, 257))
    before = component(**here)["output"].astype(np.float64)
    expect_shape(before, case.output.value.shape, "output")
    wanted = Expected(before, case.output_for(here).bound + case.output_for(there).bound)
    seen = component(**there)["output"]
    expect_close(seen, wanted, "output 257 positions on", factor=component.widening)


@verifies("M7.9")
@given(case=self_attention_cases(schemes=ALIBI, masks=("none",), min_length=2))
def weights_fall_with_the_distance(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """Without scores the logarithm of a weight falls by the head's slope with each position."""
    component = case.loaded(impl, case.without_scores())
    weights = component(**case.inputs).get("weights")
    if weights is None:
        raise NotClaimed("self_attention does not return its weights")
    expect_alibi(weights, case)


@verifies("M7.12", effort=0.3)
@given(case=self_attention_cases(min_length=2))
def positions_are_the_same_in_training(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """A path that is taken in train mode alone has the same positions."""
    expect_the_same_in_training(impl, case)


@verifies("M7.12")
@given(case=self_attention_cases(schemes=NONE, at=("counted",), masks=("none",), causal=False, min_length=2))
def without_positions_order_does_not_matter(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """Permuted tokens give the permuted output."""
    component, order = case.loaded(impl), case.rng(6).permutation(case.T)
    whole = component(**case.inputs)["output"].astype(np.float64)
    expect_shape(whole, case.output.value.shape, "output")
    wanted = Expected(whole[:, order], case.output.bound[:, order])
    seen = component(**case.in_order(order))["output"]
    expect_close(seen, wanted, "output of permuted tokens", factor=2 * component.widening)


@verifies("M7.12")
@given(
    case=self_attention_cases(at=("counted",), masks=("none",), causal=False, min_length=3, kinds=("unit",))
)
def with_positions_order_matters(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """A reversed sequence differs, where the formula moves most, by half as much or more."""
    component, order = case.loaded(impl), np.arange(case.T)[::-1]
    turned = case.in_order(order)
    place, moves, bound = most_moved(case.output_for(turned), case.output, order)
    seen = [component(**inputs)["output"].astype(np.float64) for inputs in (turned, case.inputs)]
    found = abs(float(seen[0][:, order][place] - seen[1][place]))
    sentence = f"reversing the sequence moved output{list(place)} by {found:.3g}, should be {moves:.3g}"
    expect(moves <= 8 * bound or found >= moves / 2, sentence)
