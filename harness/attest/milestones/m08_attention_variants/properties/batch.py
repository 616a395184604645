"""M8: what a row of a batch may notice of the others."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect_close, expect_same_bits
from attest.contract import Array
from attest.judging.property import given, verifies
from attest.milestones.m08_attention_variants.cases.chunked import ChunkedCase, chunked_cases
from attest.milestones.m08_attention_variants.cases.heads import HeadsCase, heads_cases
from attest.outcomes import Expected, NotClaimed

SIZES = ((1, 2), (2, 3), (3, 8), (1, 5))


def batch_of(case: HeadsCase, size: int) -> tuple[HeadsCase, Array]:
    """A batch of so many rows; the first is always the same."""
    grown = case.but(B=size)
    x = grown.inputs["x"].copy()
    x[0] = case.but(B=1).inputs["x"][0]
    return grown, x


def heads() -> st.SearchStrategy[HeadsCase]:
    """Rows of one length, whose masks are shared."""
    return heads_cases(masks=("none", "shared"), at=("counted",))


@verifies("M8.13")
@given(case=heads(), scale=st.sampled_from((1.0, 50.0)))
def the_content_of_neighbours_is_inert(impl: JudgedImplementation, case: HeadsCase, scale: float) -> None:
    """With every other row exchanged, or fifty times as large, a row gives the same bits."""
    grown, x = batch_of(case, max(3, case.least))
    other = x.copy()
    other[1:] = (-scale * x[1:, ::-1]).astype(x.dtype)
    component = grown.loaded(impl)
    seen = [component(**grown.with_inputs(x=given))["output"][0] for given in (x, other)]
    expect_same_bits(seen[1], seen[0], "a row beside other neighbours")


@verifies("M8.13")
@given(case=heads(), sizes=st.integers(0, len(SIZES) - 1))
def the_size_of_the_batch_costs_rounding_only(
    impl: JudgedImplementation, case: HeadsCase, sizes: int
) -> None:
    """A row in a batch of one size equals the row in a batch of another, within twice the bound."""
    first, second = (row_in(impl, case, max(size, case.least)) for size in SIZES[sizes])
    component, seen = first
    bound = case.but(B=1).output.bound
    wanted = Expected(second[1].astype(np.float64)[None], bound)
    expect_close(seen[None], wanted, f"a row in batches of {SIZES[sizes]}", factor=2 * component.widening)


def row_in(impl: JudgedImplementation, case: HeadsCase, size: int) -> tuple[JudgedComponent, Array]:
    """The first row's output in a batch of so many."""
    grown, x = batch_of(case, size)
    component = grown.loaded(impl, case.but(B=1).parameters)
    return component, component(**grown.with_inputs(x=x))["output"][0]


@verifies("M8.13", effort=0.5)
@given(case=chunked_cases(masks=("none",)))
def neighbours_in_blocks_are_inert(impl: JudgedImplementation, case: ChunkedCase) -> None:
    """The running maximum is that of a row: scores of other rows do not shift it."""
    case = case.but(B=max(case.B, 2))
    component = case.loaded(impl)
    before = component(**case.inputs)["output"][0]
    k = case.inputs["k"].copy()
    k[1:] *= np.asarray(40, k.dtype)
    after = component(**case.with_inputs(k=k))["output"][0]
    expect_same_bits(after, before, "a row beside one with large scores")


@verifies("M8.13a")
@given(case=heads(), sizes=st.integers(0, len(SIZES) - 1))
def the_size_of_the_batch_changes_no_bit(impl: JudgedImplementation, case: HeadsCase, sizes: int) -> None:
    """Of who declares batch_invariant: a row gives the same bits in batches of any size."""
    if not getattr(impl.implementation, "batch_invariant", False):
        raise NotClaimed("batch_invariant is not declared")
    first, second = (row_in(impl, case, max(size, case.least))[1] for size in SIZES[sizes])
    expect_same_bits(second, first, f"a row in batches of {SIZES[sizes]}")
