"""M8: what self-attention computes in train mode, where an implementation may take another path.

Where no dropout is configured the output is that of eval mode.
"""

from __future__ import annotations

from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.checks import expect_the_same_in_training
from attest.milestones.m08_attention_variants.cases.heads import HeadsCase, heads_cases


@verifies("M8.1", effort=0.3)
@given(case=heads_cases(grouped=True))
def groups_are_the_same_in_training(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Query heads read the key head of their group."""
    expect_the_same_in_training(impl, case)


@verifies("M8.4", effort=0.3)
@given(case=heads_cases(window=("2", "3", "T-1")))
def a_window_is_the_same_in_training(impl: JudgedImplementation, case: HeadsCase) -> None:
    """A query sees its window and no more."""
    expect_the_same_in_training(impl, case)


@verifies("M8.15", effort=0.3)
@given(case=st.one_of(heads_cases(wants="score_cap:5.0"), heads_cases(wants="score_cap:1.5")))
def a_cap_is_the_same_in_training(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Scores are capped."""
    expect_the_same_in_training(impl, case)


@verifies("M8.15a", effort=0.3)
@given(case=heads_cases(wants="sinks:true"))
def sinks_are_the_same_in_training(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Sinks take their share."""
    expect_the_same_in_training(impl, case)
