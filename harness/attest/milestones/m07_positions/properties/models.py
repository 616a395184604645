"""M7: positions in a model, through a cache, under left padding and beyond max_len."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_refused
from attest.judging.cases import seeds
from attest.judging.laws import FORMULA
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.models import models, permuted, with_options
from attest.milestones.m07_positions.checks import expect_rows_alone, expect_steps, leave_out_unless_offered
from attest.milestones.m09_models_of_today.cases.language_models import LanguageModelCase
from attest.outcomes import Expected

GO_ON = ("rotary", "alibi", "relative", "none")  # positions without an end
END = ("learned", "sinusoidal")
INTERLEAVED = "rotary,rotary_pairing:interleaved"


@verifies("M7.5")
@given(case=models(INTERLEAVED, f"{INTERLEAVED},qk_norm:true"))
def permuted_weights_give_the_same_logits(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """A model of halves, and one of interleaved pairs with the rows of queries and keys permuted."""
    leave_out_unless_offered(impl, case.operation)
    halves = with_options(case, rotary_pairing="halves")
    weights = permuted(halves.parameters, case.config)
    wanted = halves.loaded(impl)(**case.inputs)["logits"].astype(np.float64)
    model = case.loaded(impl, weights)
    bound = halves.output.bound + case.output_for(parameters=weights).bound
    seen = case.specified(model(**case.inputs)["logits"], wanted)
    expect_close(seen, Expected(wanted, bound), "logits with permuted weights", factor=2 * model.widening)


@verifies("M7.6")
@given(case=models("rotary", "rotary", "learned", "sinusoidal", "none"), cut=seeds())
def steps_of_any_sizes_equal_the_full_pass(
    impl: JudgedImplementation, case: LanguageModelCase, cut: int
) -> None:
    """A token stands in a step where it stands in the full pass, behind left padding too."""
    expect_steps(impl, case, cut)


@verifies("M7.9", effort=0.5)
@given(case=models("alibi"), cut=seeds())
def alibi_counts_on_in_steps(impl: JudgedImplementation, case: LanguageModelCase, cut: int) -> None:
    """Distances to keys of earlier steps are those of the full pass."""
    leave_out_unless_offered(impl, case.operation)
    expect_steps(impl, case, cut)


@verifies("M7.11", effort=0.5)
@given(case=models("relative"), cut=seeds())
def relative_positions_count_on_in_steps(
    impl: JudgedImplementation, case: LanguageModelCase, cut: int
) -> None:
    """Buckets of keys of earlier steps are those of the full pass."""
    leave_out_unless_offered(impl, case.operation)
    expect_steps(impl, case, cut)


@verifies("M7.11", effort=0.5)
@given(case=models("relative", beside=",relative_buckets:8,relative_distance:20"), cut=seeds())
def far_buckets_count_on_in_steps(impl: JudgedImplementation, case: LanguageModelCase, cut: int) -> None:
    """Of so few buckets that short texts reach the far ones, on one side as in the full pass."""
    leave_out_unless_offered(impl, case.operation)
    expect_steps(impl, case, cut)


@verifies("M7.6")
@given(case=models("rotary", "alibi", "relative", "learned", "sinusoidal", paddings=("left",)))
def left_padding_moves_nothing(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """The tokens of a left-padded row have the logits of the row alone, without its padding."""
    expect_rows_alone(impl, case)


@verifies("M7.9", effort=0.5)
@given(case=models("alibi"))
def a_model_with_alibi_has_no_other_positions(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """Its logits are those of tokens without positions and scores with the bias."""
    leave_out_unless_offered(impl, case.operation)
    FORMULA.check(impl, case)


@verifies("M7.11", effort=0.5)
@given(case=models("relative"))
def all_layers_share_the_table(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """Every layer adds the bias, and all read it from one table."""
    leave_out_unless_offered(impl, case.operation)
    FORMULA.check(impl, case)


@verifies("M7.13")
@given(case=models(*GO_ON), missing=st.integers(1, 3))
def other_positions_go_on_beyond_max_len(
    impl: JudgedImplementation, case: LanguageModelCase, missing: int
) -> None:
    """With a smaller max_len the logits are the same: nothing wraps, nothing is cut, nothing is refused."""
    FORMULA.check(impl, case.but(room=max(1, case.T - missing)))


@verifies("M7.13", effort=0.5)
@given(case=models(*GO_ON), missing=st.integers(1, 3), cut=seeds())
def steps_go_on_beyond_max_len(
    impl: JudgedImplementation, case: LanguageModelCase, missing: int, cut: int
) -> None:
    """A cache holds more than max_len tokens: its steps give the logits of the full pass."""
    expect_steps(impl, case.but(room=max(1, case.T - missing)), cut)


@verifies("M7.13")
@given(case=models(*END, paddings=("none",)), over=st.sampled_from((1, 2)))
def a_table_ends_at_max_len(impl: JudgedImplementation, case: LanguageModelCase, over: int) -> None:
    """Learned and sinusoidal positions refuse a longer input before any output."""
    short = case.but(room=case.T - over)
    model, what = short.loaded(impl), f"an input of {case.T} tokens with max_len={case.T - over}"
    expect_refused(lambda: model.component(**case.inputs), what)
