"""M7: the generic laws, for each operation of the milestone that is offered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.judging.cases import OperationCase
from attest.judging.laws import (
    ANY_LENGTH,
    DTYPE,
    GRADIENTS,
    MEMORY_LAYOUT,
    REFUSALS,
    ROW_ALONE,
    SIDE_EFFECTS,
    SIDE_EFFECTS_IN_TRAINING,
    STATE,
    Law,
    declare_law,
)
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.relative import bias_cases
from attest.milestones.m07_positions.cases.rotary import rotary_cases
from attest.milestones.m07_positions.cases.self_attention import self_attention_cases
from attest.milestones.m07_positions.checks import leave_out_unless_offered

QUIET = dict.fromkeys((ANY_LENGTH, ROW_ALONE, MEMORY_LAYOUT, DTYPE, STATE), "M7.16")
ROTARY = {SIDE_EFFECTS: "M7.16", **QUIET, GRADIENTS: "M7.17", REFUSALS: "M7.18"}
RELATIVE = {SIDE_EFFECTS: "M7.16", **QUIET, REFUSALS: "M7.18"}  # its gradients are asked by M7.11
SELF_ATTENTION = {SIDE_EFFECTS_IN_TRAINING: "M7.16", **QUIET, GRADIENTS: "M7.17", REFUSALS: "M7.18"}
EFFORT = {GRADIENTS: 0.5, SIDE_EFFECTS: 0.5, SIDE_EFFECTS_IN_TRAINING: 0.5}


def ask(laws: Mapping[Law, str], cases: st.SearchStrategy[Any], operation: str) -> None:
    """Each law under its criterion; left out where the operation is not offered."""
    for law, criterion in laws.items():
        _ask(law, criterion, cases, operation)


def _ask(law: Law, criterion: str, cases: st.SearchStrategy[Any], operation: str) -> None:
    def check(impl: JudgedImplementation, case: OperationCase) -> None:
        leave_out_unless_offered(impl, operation)
        law.check(impl, case)

    check.__name__, check.__doc__ = f"{law.name}_of_{operation}", law.sentence
    verifies(criterion, effort=EFFORT.get(law, 0.25), large=law.large)(given(case=cases)(check))
    declare_law(law, criterion, operation)


ask(ROTARY, rotary_cases(), "rotary")
ask(RELATIVE, bias_cases(), "relative_bias")
ask(SELF_ATTENTION, self_attention_cases(), "self_attention")
