"""M8: attention over keys in blocks, and the merging of partial results."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect_close, expect_gradients, expect_zero
from attest.contract import Array
from attest.evidence import note_case
from attest.judging.cases import seeds
from attest.judging.laws import FORMULA, GRADIENTS, REFUSALS, SIDE_EFFECTS, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m08_attention_variants.cases.chunked import ChunkedCase, chunked_cases
from attest.outcomes import Expected

NAME = "chunked_attention"
BLIND = ("mask", "length", "causal")  # how a query comes to see nothing

law_holds(
    FORMULA,
    "M8.7",
    chunked_cases(),
    NAME,
    name="attention_in_blocks_equals_attention",
    sentence="Whatever the size of a block, the mask and the way the scores go along the keys.",
)
law_holds(GRADIENTS, "M8.16", chunked_cases(), NAME, name="gradients_through_blocks", effort=0.5)
law_holds(REFUSALS, "M8.17", chunked_cases(), NAME, name="chunked_attention_refuses", effort=0.3)
law_holds(SIDE_EFFECTS, "M8.18", chunked_cases(), NAME, name="chunked_attention_leaves_no_trace", effort=0.3)


@verifies("M8.7", effort=0.3)
@given(case=chunked_cases(min_keys=2))
def every_size_of_a_block(impl: JudgedImplementation, case: ChunkedCase) -> None:
    """Blocks of 1 to S + 1 keys, the same inputs."""
    sizes = (case.chunk,) if case.fixed else range(1, case.S + 2)
    for chunk in sizes:
        component = case.but(chunk=chunk).loaded(impl)
        seen = component(**case.inputs)["output"]
        expect_close(seen, case.output, f"output in blocks of {chunk}", factor=component.widening)


@verifies("M8.7", effort=0.3)
@given(case=chunked_cases(masks=("none", "pairs", "keys")), depth=st.sampled_from((1e4, 1000.0, 200.0)))
def scores_may_all_be_low(impl: JudgedImplementation, case: ChunkedCase, depth: float) -> None:
    """Far below zero they are as good as any: only the highest of them is subtracted."""
    inputs = case.with_scores_below(case.in_range(depth))
    component, wanted = case.loaded(impl), case.expected_for(inputs)
    expect_close(component(**inputs)["output"], wanted["output"], "output", factor=component.widening)


@verifies("M8.7", effort=0.3)
@given(case=chunked_cases(masks=("pairs", "late"), causal=False), way=st.sampled_from(BLIND))
def a_query_without_keys_gets_zeros(impl: JudgedImplementation, case: ChunkedCase, way: str) -> None:
    """Its output is zero and its log_sum_exp minus infinity; the others are as the formula says."""
    inputs, _ = case.blinded(way)
    component, wanted = case.loaded(impl), case.expected_for(inputs)
    for name, seen in component(**inputs).items():
        if name in wanted:
            expect_close(seen, wanted[name], f"{name} beside a blind query", factor=component.widening)


@verifies("M8.7", effort=0.3)
@given(case=chunked_cases(masks=("none",), causal=False, min_keys=2))
def a_mask_of_one_column_holds_for_every_block(impl: JudgedImplementation, case: ChunkedCase) -> None:
    """With a mask (T, 1) a query sees every key or none; one who does not take it refuses it."""
    sees = case.rng(5).random((case.T, 1)) < 0.5
    sees[case.seed % case.T] = False
    component, inputs = case.loaded(impl), case.with_inputs(mask=sees)
    seen = component.accepted(**inputs)
    if seen is not None:
        wanted = case.expected_for(inputs)["output"]
        expect_close(seen["output"], wanted, "output", factor=2 * component.widening)


@verifies("M8.16", effort=0.3)
@given(case=chunked_cases(masks=("pairs", "keys"), causal=False), way=st.sampled_from(("mask", "length")))
def blind_queries_do_not_spoil_gradients_of_blocks(
    impl: JudgedImplementation, case: ChunkedCase, way: str
) -> None:
    """Beside a query without keys gradients are finite and right; its own are zero."""
    case = case.sharpest(impl)
    component, (inputs, blind) = case.loaded(impl), case.blinded(way)
    seen = component.gradients(inputs, case.cotangents())
    expect_gradients(seen, case.gradients_for(inputs), factor=component.widening)
    expect_zero(seen.inputs["q"][blind], "the gradient of a query that sees nothing")


def merged(parts: list[dict[str, Array]]) -> tuple[Array, Array]:
    """Output and log_sum_exp of all keys, from those of disjoint parts, in float64."""
    logs = np.stack([part["log_sum_exp"].astype(np.float64) for part in parts])
    top = logs.max(axis=0)
    with np.errstate(invalid="ignore"):
        shares = np.where(np.isneginf(logs), 0.0, np.exp(logs - np.where(np.isneginf(top), 0.0, top)))
    outputs = np.stack([part["output"].astype(np.float64) for part in parts])
    total = shares.sum(axis=0)
    mixed = (shares[..., None] * outputs).sum(axis=0)
    with np.errstate(divide="ignore"):
        return mixed / np.where(total == 0, 1.0, total)[..., None], top + np.log(total)


def parts_of(case: ChunkedCase, order: int, count: int) -> list[list[int]]:
    """The keys in `count` disjoint parts, in any order."""
    keys = np.random.default_rng(order).permutation(case.S)
    return [part.tolist() for part in np.array_split(keys, min(count, case.S)) if len(part)]


@verifies("M8.8")
@given(case=chunked_cases(min_keys=2), order=seeds(), count=st.integers(2, 4))
def parts_of_the_keys_merge(impl: JudgedImplementation, case: ChunkedCase, order: int, count: int) -> None:
    """Each part weighs by the exponential of its log_sum_exp: together they are the whole."""
    component, keys = case.loaded(impl), parts_of(case, order, count)
    whole = component(**case.inputs)
    output, logs = merged([component(**case.part(part)) for part in keys])
    bounds = merging_bounds(case, keys)
    for name, seen in (("output", output), ("log_sum_exp", logs)):
        wanted = Expected(whole[name].astype(np.float64), bounds[name])
        expect_close(seen, wanted, f"{name} of {len(keys)} merged parts", factor=component.widening)


def merging_bounds(case: ChunkedCase, keys: list[list[int]]) -> dict[str, Array]:
    """Of the whole and of the merged parts together.

    A share is off by its log_sum_exp's error, which moves the output by that times the spread of the values.
    """
    parts = [case.expected_for(case.part(part)) for part in keys]
    logs = case.expected["log_sum_exp"].bound + sum(part["log_sum_exp"].bound for part in parts)
    spread = 2 * np.abs(case.inputs["v"]).max(initial=0.0)
    output = case.output.bound + sum(part["output"].bound for part in parts) + (logs * spread)[..., None]
    return {"output": np.asarray(output), "log_sum_exp": np.asarray(logs)}


@verifies("M8.8")
@given(case=chunked_cases(regimes=("large", "unit", "saturated", "offset", "tiny")))
def log_sum_exp_equals_its_formula(impl: JudgedImplementation, case: ChunkedCase) -> None:
    """The natural logarithm of the sum of the exponentials of the scaled scores that a query sees."""
    component = case.loaded(impl)
    expect_log_sum_exp(component, case)


def expect_log_sum_exp(component: JudgedComponent, case: ChunkedCase) -> None:
    """Within the bound, finite where the scores are."""
    seen = component(**case.inputs)["log_sum_exp"]
    expect_close(seen, case.expected["log_sum_exp"], "log_sum_exp", factor=component.widening)


@verifies("M8.8")
def log_sum_exp_of_a_worked_example(impl: JudgedImplementation) -> None:
    """Scores (0, log 3) and a hidden 5: the sum of the exponentials is 4."""
    case = ChunkedCase(T=1, S=3, d_k=1, d_v=1, chunk=2, dtype=impl.dtypes[0]).fitted(impl)
    note_case("scores (0, log 3, hidden)", "worked by hand")
    q = np.ones_like(case.inputs["q"])
    k = np.zeros_like(case.inputs["k"])
    k[..., 1, :], k[..., 2, :] = np.log(3.0) / np.sqrt(k.shape[-1]), 5.0
    mask = np.arange(case.S) < 2
    inputs = case.with_inputs(q=q, k=k, mask=np.broadcast_to(mask, (*case.leading, 1, case.S)))
    wanted = case.expected_for(inputs)["log_sum_exp"]
    exact = Expected(np.full_like(wanted.value, np.log(4.0)), wanted.bound)
    expect_close(case.loaded(impl)(**inputs)["log_sum_exp"], exact, "log_sum_exp of a sum of 4", factor=2.0)
