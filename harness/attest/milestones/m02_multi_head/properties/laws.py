"""M2: masks over heads, laws of order and batch, memory layout, side effects, queries that see nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_same_bits, expect_shape, expect_zero
from attest.judging.cases import seeds
from attest.judging.laws import (
    ANY_LENGTH,
    DTYPE,
    FORMULA,
    MEMORY_LAYOUT,
    RANKS,
    REFUSALS,
    ROW_ALONE,
    SIDE_EFFECTS,
    STATE,
    law_holds,
    laws_hold,
)
from attest.judging.named import ONCE, named
from attest.judging.property import given, verifies
from attest.milestones.m02_multi_head.cases.multi_head import (
    HIDING,
    MANY_ROWS,
    OPERATION,
    MultiHeadCase,
    multi_head_cases,
)
from attest.outcomes import Expected


@verifies("M2.8", large=2)
@given(case=multi_head_cases(masks=HIDING, min_heads=2, min_keys=2), junk=st.sampled_from((1e6, 1e3, 1.0)))
def a_mask_reaches_every_head(impl: JudgedImplementation, case: MultiHeadCase, junk: float) -> None:
    """In every head, queries that do not see a key do not change with it."""
    component = case.loaded(impl)
    spoiled, blind = case.spoiled(junk)
    before, after = component(**case.inputs), component(**spoiled)
    expect_shape(before["output"], (case.B, case.T, case.D), "output")
    what = "output of the queries that do not see the junk"
    expect_same_bits(after["output"][blind], before["output"][blind], what)
    if "weights" in before:
        expect_shape(before["weights"], (case.B, case.H, case.T, case.S), "weights")
        hidden = ~np.repeat(case.visible[:, None], case.H, 1)
        expect_zero(before["weights"][hidden], "the weight of a hidden key")


@verifies("M2.8")
@given(case=multi_head_cases(masks=("keys", "pairs"), min_heads=2, min_batch=2, min_keys=2, equal=("B=H",)))
def a_mask_stays_in_its_row(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """Each row of a mask acts on its row of the batch and on all heads, also where B == H."""
    component, wanted = case.loaded(impl), case.expected["output"]
    seen = component(**case.inputs)["output"]
    expect_close(seen, wanted, "output", factor=component.widening)
    for b in range(case.B):
        alone = component(**case.alone(b))["output"][:1]
        row = Expected(seen[b : b + 1].astype(np.float64), wanted.bound[b : b + 1])
        expect_close(alone, row, f"row {b} alone", factor=2 * component.widening)


@verifies("M2.8", effort=ONCE)
@given(case=named(MANY_ROWS))
def every_row_has_its_own_mask(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """33 rows, more than a kernel takes at once, are each read with their own mask."""
    FORMULA.check(impl, case)


@verifies("M2.8", large=2)
@given(case=multi_head_cases(masks=HIDING, min_heads=2, min_keys=2))
def every_form_of_mask_equals_its_expansion(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """A mask (T, S), (1, T, S) or (B, 1, S) acts like the same mask written out as (B, T, S)."""
    component, wanted = case.loaded(impl), case.expected["output"]
    expanded = component(**case.with_inputs(mask=case.visible.copy()))["output"]
    expect_close(component(**case.inputs)["output"], wanted, "output", factor=component.widening)
    expect_close(expanded, wanted, "output for the mask written out", factor=component.widening)


@verifies("M2.9")
@given(case=multi_head_cases(masks=("none",), own=True, min_heads=2), order=seeds())
def positions_are_interchangeable(impl: JudgedImplementation, case: MultiHeadCase, order: int) -> None:
    """Permuting the positions of the input permutes the output."""
    moved = np.random.default_rng(order).permutation(case.T)
    component, bound = case.loaded(impl), case.expected["output"].bound
    before = component(**case.inputs)["output"].astype(np.float64)
    expect_shape(before, (case.B, case.T, case.D), "output")
    x = case.inputs["query"][:, moved]
    after = component(**case.with_inputs(query=x, key_value=x.copy()))["output"]
    wanted = Expected(before[:, moved], bound[:, moved])
    expect_close(after, wanted, "output after a permutation", factor=2 * component.widening)


law_holds(ROW_ALONE, "M2.9", multi_head_cases(min_batch=2), OPERATION, name="rows_of_a_batch_are_independent")
law_holds(
    MEMORY_LAYOUT,
    "M2.10",
    multi_head_cases(min_keys=2),
    OPERATION,
    name="memory_layout_does_not_matter",
    effort=0.5,
)
law_holds(SIDE_EFFECTS, "M2.13", multi_head_cases(), OPERATION, name="a_call_leaves_no_trace", effort=0.5)
laws_hold(
    {ANY_LENGTH: "M2.5", DTYPE: "M2.5", REFUSALS: "M2.14", RANKS: "M2.14a", STATE: "M2.13"},
    multi_head_cases(),
    OPERATION,
)


@verifies("M2.13a", effort=0.3)
@given(case=multi_head_cases())
def blind_queries_are_the_same_in_training(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """In train mode without dropout a query that sees nothing gets what it gets in eval mode."""
    component = case.loaded(impl)
    inputs, blind = case.blinded()
    component.train(case.seed)
    try:
        seen = component(**inputs)["output"]
    finally:
        component.eval()
    expect_close(seen, case.expected_for(inputs)["output"], "output", factor=2 * component.widening)
    bias = case.parameters.get("output.bias", np.zeros(case.D, seen.dtype))
    rows = seen[blind]
    expect_same_bits(rows, np.broadcast_to(case.stored(bias), rows.shape), "the output of a blind query")


@verifies("M2.13a", large=2)
@given(case=multi_head_cases())
def blind_queries_give_the_output_bias(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """A query that sees nothing gets the output bias alone; other queries are not affected."""
    component = case.loaded(impl)
    inputs, blind = case.blinded()
    wanted, seen = case.expected_for(inputs), component(**inputs)
    expect_close(seen["output"], wanted["output"], "output", factor=2 * component.widening)
    bias = case.parameters.get("output.bias", np.zeros(case.D, seen["output"].dtype))
    rows = seen["output"][blind]
    expect_same_bits(rows, np.broadcast_to(case.stored(bias), rows.shape), "the output of a blind query")
    if "weights" in seen:
        expect_shape(seen["weights"], (case.B, case.H, case.T, case.S), "weights")
        expect_zero(np.moveaxis(seen["weights"], 1, 2)[blind], "a weight of a query that sees nothing")
