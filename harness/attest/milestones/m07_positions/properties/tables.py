"""M7: which tables of positions are parameters, and what becomes of them."""

from __future__ import annotations

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_same_bits
from attest.contract import float_dtype
from attest.contract.parameters import shapes
from attest.judging.cases import OperationCase
from attest.judging.laws import FORMULA
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.models import models
from attest.milestones.m07_positions.cases.rotary import RotaryCase, rotary_cases
from attest.milestones.m07_positions.cases.self_attention import SelfAttentionCase, self_attention_cases
from attest.milestones.m07_positions.checks import leave_out_unless_offered
from attest.milestones.m09_models_of_today.cases.language_models import LanguageModelCase

TABLES = ("relative.weight", "position_embedding.weight")


def expect_canonical(impl: JudgedImplementation, case: OperationCase) -> None:
    """parameters() has the canonical names and shapes, and returns what was loaded."""
    component = case.loaded(impl)
    found, wanted = component.parameters(), shapes(case.operation, case.config)
    more, missing = sorted(found.keys() - wanted.keys()), sorted(wanted.keys() - found.keys())
    with_positions = f"with {case.config.positions} positions"
    expect(not more, f"parameters() {with_positions} has {', '.join(more)}, which nothing should learn")
    expect(not missing, f"parameters() {with_positions} lacks {', '.join(missing)}")
    for name in found:
        if name.endswith(TABLES):
            expect_same_bits(found[name], case.parameters[name], name)


@verifies("M7.15")
@given(case=self_attention_cases())
def attention_learns_what_is_canonical(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """Tables of rotary and ALiBi are no parameters; that of relative positions is one."""
    expect_canonical(impl, case)


@verifies("M7.15", effort=0.5)
@given(case=models("learned", "relative", "rotary", "alibi"))
def a_model_learns_what_is_canonical(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """The same for a language model, with learned positions as well, where it is offered."""
    leave_out_unless_offered(impl, case.operation)
    expect_canonical(impl, case)


@verifies("M7.15", effort=0.5)
@given(case=self_attention_cases(schemes=("relative",), min_length=2, kinds=("unit",)))
def a_learned_table_gets_a_gradient(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """The numbers of buckets that were met move the output, so their gradients are not all zero."""
    found = case.loaded(impl).gradients(case.inputs, case.cotangents()).parameters.get("relative.weight")
    expect(found is not None, "the gradient of relative.weight is missing")
    formula = case.gradients_for()["relative.weight"]
    moves = np.abs(formula.value).max() > 8 * formula.bound.max()
    expect(not moves or np.any(found), "the gradient of relative.weight is zero everywhere")


@verifies("M7.15", effort=0.3)
@given(case=rotary_cases(at=("mixed", "far")))
def tables_survive_a_cast(impl: JudgedImplementation, case: RotaryCase) -> None:
    """In every dtype that is offered, angles are those of that dtype's bound, far from position 0 too."""
    leave_out_unless_offered(impl, case.operation)
    for word in (case.dtype,) if case.fixed else impl.dtypes:
        other = case.but(dtype=word).fitted(impl)
        FORMULA.check(impl, other)
        seen = other.loaded(impl)(**other.inputs)["output"].dtype
        expect(seen == float_dtype(word), f"output has dtype {seen} where dtype={word!r}")
