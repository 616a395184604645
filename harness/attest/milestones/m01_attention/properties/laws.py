"""M1: work, laws of order, batch and linearity, refusals, side effects."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_mask,
    expect_refused,
    expect_refused_by_name,
    expect_shape,
)
from attest.checks.layouts import laid_out
from attest.checks.side_effects import python_work
from attest.contract import Config
from attest.evidence import note_case
from attest.judging.cases import seeds
from attest.judging.laws import (
    ANY_LENGTH,
    DTYPE,
    GRADIENTS,
    MEMORY_LAYOUT,
    RANKS,
    REFUSALS,
    ROW_ALONE,
    SIDE_EFFECTS,
    STATE,
    declare_law,
    law_holds,
    laws_hold,
)
from attest.judging.property import given, verifies
from attest.milestones.m01_attention.cases.attention import AttentionCase, attention_cases
from attest.milestones.m01_attention.cases.masks import MaskCase, mask_cases
from attest.milestones.m01_attention.cases.misfits import REPEATED, misfits
from attest.milestones.m01_attention.cases.projections import projection_cases
from attest.outcomes import Expected

MIXING = ("unit", "saturated", "offset")


@verifies("M1.7")
def no_python_loop(impl: JudgedImplementation) -> None:
    """The interpreter executes as many bytecodes for large inputs as for small ones."""
    small, large = (
        AttentionCase(B=b, T=t, S=t, d_k=4, d_v=4, mask="keys", dtype=impl.dtypes[0])
        for b, t in ((2, 6), (16, 48))
    )
    note_case(f"{small} against {large}", "bytecodes")
    few, many = (python_work(small.loaded(impl), case.inputs) for case in (small, large))
    sizes = f"{many} bytecodes at (B, T, S) = (16, 48, 48) and {few} at (2, 6, 6)"
    expect(many <= 1.5 * few, f"{sizes}, should be at most 1.5 times as many")


@verifies("M1.12")
@given(case=attention_cases(masks=("none", "pairs"), causal=False), order=seeds())
def order_laws_hold(impl: JudgedImplementation, case: AttentionCase, order: int) -> None:
    """Permuting keys with values changes nothing; permuting queries permutes the output."""
    rng = np.random.default_rng(order)
    keys, queries = rng.permutation(case.S), rng.permutation(case.T)
    moved = {
        "q": case.inputs["q"][..., queries, :],
        **{n: case.inputs[n][..., keys, :] for n in "kv"},
        **({"mask": case.allowed[..., queries, :][..., keys]} if case.mask == "pairs" else {}),
    }
    component, bound = case.loaded(impl), case.expected["output"].bound
    before = component(**case.inputs)["output"].astype(np.float64)
    expect_shape(before, (*bound.shape[:-1], case.d_v), "output")
    wanted = Expected(before[..., queries, :], bound[..., queries, :])
    what = "output after a permutation"
    expect_close(component(**moved)["output"], wanted, what, factor=2 * component.widening)


@verifies("M1.12")
@given(case=attention_cases(causal=False, regimes=MIXING))
def the_output_is_linear_in_the_values(impl: JudgedImplementation, case: AttentionCase) -> None:
    """f(v + w) = f(v) + f(w)."""
    component, v = case.loaded(impl), case.inputs["v"]
    w = case.draw(case.rng(5), *v.shape)
    parts = [case.with_inputs(v=x) for x in (v, w, v + w)]
    seen = [component(**inputs)["output"].astype(np.float64) for inputs in parts]
    bound = sum(case.expected_for(inputs)["output"].bound for inputs in parts)
    what = "output for the sum of two values"
    expect_close(seen[2], Expected(seen[0] + seen[1], np.asarray(bound)), what, factor=component.widening)


@verifies("M1.12")
@given(case=attention_cases(causal=False, regimes=MIXING))
def the_output_lies_among_the_visible_values(impl: JudgedImplementation, case: AttentionCase) -> None:
    """Each feature lies between the smallest and the largest value that the query sees."""
    component, wanted = case.loaded(impl), case.expected["output"]
    seen = component(**case.inputs)["output"]
    expect_shape(seen, wanted.value.shape, "output")
    room = 2 * component.widening * wanted.bound
    around = np.where(case.visible[..., None], case.inputs["v"][..., None, :, :], np.nan).astype(np.float64)
    inside = (seen >= np.nanmin(around, -2) - room) & (seen <= np.nanmax(around, -2) + room)
    expect(bool(np.all(inside)), "an output lies outside the visible values")


law_holds(
    ROW_ALONE,
    "M1.12",
    attention_cases(causal=False, regimes=MIXING, masks=("none", "keys", "pairs")),
    "attention",
    name="rows_of_a_batch_are_independent",
)


@verifies("M1.14")
def misfits_are_refused(impl: JudgedImplementation) -> None:
    """Arguments for which no result is right raise an exception."""
    expect_misfits_refused(impl, [what for what in misfits(impl.dtypes[0]) if what not in REPEATED])


@verifies("M1.14b")
def nothing_is_repeated_to_fit(impl: JudgedImplementation) -> None:
    """Arrays that fit only after one is repeated, and empty sums, raise an exception."""
    expect_misfits_refused(impl, REPEATED)


def expect_misfits_refused(impl: JudgedImplementation, names: Iterable[str]) -> None:
    """An exception for each."""
    component, every = impl.build("attention", Config(dtype=impl.dtypes[0])), misfits(impl.dtypes[0])
    for what in names:
        note_case(what, "refusal")
        expect_refused(partial(component.component, **every[what][1]), what)


@verifies("M1.14a")
def refusals_name_the_argument(impl: JudgedImplementation) -> None:
    """A ValueError names the argument that does not fit."""
    component = impl.build("attention", Config(dtype=impl.dtypes[0]))
    for what, (name, inputs) in misfits(impl.dtypes[0]).items():
        note_case(what, "refusal")
        expect_refused_by_name(partial(component.component, **inputs), what, name)


law_holds(SIDE_EFFECTS, "M1.15", attention_cases(), "attention", name="a_call_leaves_no_trace", effort=0.5)
laws_hold(
    {ANY_LENGTH: "M1.2", DTYPE: "M1.2", MEMORY_LAYOUT: "M1.16", STATE: "M1.15"},
    attention_cases(),
    "attention",
)
declare_law(REFUSALS, "M1.14", "attention")  # nothing of its shapes follows from the config
laws_hold(
    {
        ANY_LENGTH: "M1.1",
        DTYPE: "M1.1",
        ROW_ALONE: "M1.12",
        MEMORY_LAYOUT: "M1.16",
        GRADIENTS: "M1.13",
        SIDE_EFFECTS: "M1.15",
        REFUSALS: "M1.14",
        RANKS: "M1.14b",
        STATE: "M1.15",
    },
    projection_cases(),
    "qkv_projection",
)


@verifies("M1.16", effort=0.5)
@given(case=mask_cases(), layout=st.sampled_from(("strided", "reversed", "read-only")))
def masks_are_made_from_any_memory_layout(impl: JudgedImplementation, case: MaskCase, layout: str) -> None:
    """Lengths and ids give the same masks in every memory layout."""
    given = laid_out({"ids": case.scattered, "lengths": case.row_lengths}, layout)
    if impl.offers("padding_mask"):
        seen = impl.call_as_given("padding_mask", given["ids"], case.pad_id)
        expect_mask(seen, (case.scattered != case.pad_id)[:, None, :], f"padding_mask of {layout} ids")
    if impl.offers("length_mask"):
        seen = impl.call_as_given("length_mask", given["lengths"], case.S)
        wanted = (np.arange(case.S) < case.row_lengths[:, None])[:, None, :]
        expect_mask(seen, wanted, f"length_mask of {layout} lengths")
