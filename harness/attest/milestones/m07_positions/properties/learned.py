"""M7: a learned row for each position."""

from __future__ import annotations

from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_refused
from attest.judging.laws import FORMULA, GRADIENTS, SIDE_EFFECTS_IN_TRAINING
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.learned import LearnedCase, learned_cases
from attest.milestones.m07_positions.checks import leave_out_unless_offered


@verifies("M7.1", large=2)
@given(case=learned_cases())
def row_p_is_added_at_position_p(impl: JudgedImplementation, case: LearnedCase) -> None:
    """In every row of the batch position p gets row p of the table, and nothing else."""
    FORMULA.check(impl, case)


@verifies("M7.1", large=1)
@given(case=learned_cases())
def a_position_learns_from_every_row_of_the_batch(impl: JudgedImplementation, case: LearnedCase) -> None:
    """The gradient of a row of the table is the sum over the batch; rows that were not read have none."""
    GRADIENTS.check(impl, case)


@verifies("M7.1", effort=0.5)
@given(case=learned_cases(), over=st.sampled_from((1, 2, 7)))
def one_past_the_table_is_refused(impl: JudgedImplementation, case: LearnedCase, over: int) -> None:
    """max_len positions fit; one more is refused before any output."""
    component, most = case.loaded(impl), case.max_len
    component(x=case.of_length(most))
    refused = f"an input of {most + over} positions with max_len={most}"
    expect_refused(lambda: component.component(x=case.of_length(most + over)), refused)


@verifies("M7.16", effort=0.3)
@given(case=learned_cases())
def learned_positions_leave_no_trace(impl: JudgedImplementation, case: LearnedCase) -> None:
    """Inputs, table, random state and flags are as before a call."""
    leave_out_unless_offered(impl, case.operation)
    SIDE_EFFECTS_IN_TRAINING.check(impl, case)
