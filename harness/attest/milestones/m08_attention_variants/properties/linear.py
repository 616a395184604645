"""M8: attention with a kernel in place of the softmax."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_gradients, expect_zero
from attest.contract import Array
from attest.judging.laws import FORMULA, GRADIENTS, REFUSALS, SIDE_EFFECTS, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m08_attention_variants.cases.linear import LinearCase, linear_cases
from attest.outcomes import Expected

NAME = "linear_attention"

law_holds(
    FORMULA,
    "M8.10",
    linear_cases(),
    NAME,
    name="linear_attention_equals_its_formula",
    sentence="phi(q) (phi(k)^T v) over phi(q) sum of phi(k), with phi = elu + 1, causal and not.",
)
law_holds(GRADIENTS, "M8.16", linear_cases(), NAME, name="gradients_of_linear_attention", effort=0.5)
law_holds(REFUSALS, "M8.17", linear_cases(), NAME, name="linear_attention_refuses", effort=0.3)
law_holds(SIDE_EFFECTS, "M8.18", linear_cases(), NAME, name="linear_attention_leaves_no_trace", effort=0.3)


def implied_weights(component: JudgedComponent, case: LinearCase) -> tuple[Array, Expected]:
    """(B, H, T, S), read off with V = identity, and what they should be."""
    k = case.inputs["k"]
    identity = np.broadcast_to(np.eye(case.S, dtype=k.dtype), (case.B, case.H, case.S, case.S))
    inputs = case.with_inputs(v=identity)
    return component(**inputs)["output"], case.output_for(inputs)


@verifies("M8.10")
@given(case=linear_cases())
def implied_weights_are_shares(impl: JudgedImplementation, case: LinearCase) -> None:
    """None is negative, hidden keys have none, and they sum to one."""
    component = case.loaded(impl)
    seen, wanted = implied_weights(component, case)
    expect(seen.min() >= 0, f"an implied weight is {seen.min():.6g}, should not be negative")
    expect_zero(np.where(case.visible, 0.0, seen), "the implied weight of a hidden key")
    total = np.ones((*seen.shape[:-1], 1))
    bound = np.sqrt(case.S) * wanted.bound
    summed = seen.astype(np.float64).sum(-1, keepdims=True)
    expect_close(summed, Expected(total, bound), "the sum of the weights", factor=component.widening)


@verifies("M8.10")
@given(case=linear_cases(causal=True))
def causal_linear_attention_is_the_last_query_of_each_prefix(
    impl: JudgedImplementation, case: LinearCase
) -> None:
    """Query t of a causal call is query t by itself, not causal, with the keys up to its own."""
    component = case.loaded(impl)
    whole = component(**case.inputs)["output"].astype(np.float64)
    for t in range(case.T):
        keys = case.S - case.T + t + 1
        alone = component(**prefix(case, t, keys))["output"]
        wanted = Expected(whole[:, :, t : t + 1], case.output.bound[:, :, t : t + 1])
        expect_close(alone, wanted, f"query {t} by itself", factor=2 * component.widening)


def prefix(case: LinearCase, t: int, keys: int) -> dict[str, Array]:
    """One query (as many times as the least size) and so many keys."""
    q = np.repeat(case.inputs["q"][:, :, t : t + 1], case.least, axis=2)[:, :, :1]
    k, v = (case.inputs[name][:, :, :keys] for name in "kv")
    mask = None if case.mask == "none" else case.allowed[..., :keys]
    return case.with_inputs(q=q, k=k, v=v, mask=mask, causal=None)


@verifies("M8.10", effort=0.5)
@given(case=linear_cases(causal=True), more=st.integers(1, 4))
def the_future_of_linear_attention_is_inert(impl: JudgedImplementation, case: LinearCase, more: int) -> None:
    """With keys and values behind the last query's changed, earlier queries are as before."""
    component, cut = case.loaded(impl), max(1, case.T - more)
    before = component(**case.inputs)["output"].astype(np.float64)
    k, v = (case.inputs[name].copy() for name in "kv")
    k[:, :, case.S - case.T + cut :] += 3
    v[:, :, case.S - case.T + cut :] *= -5
    after = component(**case.with_inputs(k=k, v=v))["output"]
    wanted = Expected(before[:, :, :cut], case.output.bound[:, :, :cut])
    expect_close(after[:, :, :cut], wanted, "output before the change", factor=2 * component.widening)


@verifies("M8.10", effort=0.5)
@given(case=linear_cases(causal=False, masks=("keys", "one")))
def hidden_keys_of_linear_attention_are_deleted(impl: JudgedImplementation, case: LinearCase) -> None:
    """A row with hidden keys equals the row with those keys taken out."""
    component = case.loaded(impl)
    whole = component(**case.inputs)["output"].astype(np.float64)
    for row in range(case.B):
        shown = np.broadcast_to(case.allowed, (case.B, 1, case.S))[row, 0]
        rows = [row] * case.least
        inputs = {n: case.inputs[n][rows][:, :, shown] for n in "kv"} | {"q": case.inputs["q"][rows]}
        seen = component(**inputs)["output"][:1]
        wanted = Expected(whole[row : row + 1], case.output.bound[row : row + 1])
        expect_close(seen, wanted, f"row {row} without its hidden keys", factor=2 * component.widening)


@verifies("M8.10", effort=0.3)
@given(case=linear_cases(causal=True, masks=("none",)), more=st.integers(1, 3))
def queries_before_the_first_key_are_zero(impl: JudgedImplementation, case: LinearCase, more: int) -> None:
    """Causal with more queries than keys: those that stand before every key get zeros."""
    case = case.but(T=case.S + more)
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    expect_close(seen, case.output, "output", factor=component.widening)
    blind = case.T - case.S
    expect_zero(seen[:, :, :blind], "output of a query before the first key")


@verifies("M8.16", effort=0.3)
@given(case=linear_cases(causal=False))
def a_row_without_keys_does_not_spoil_gradients(impl: JudgedImplementation, case: LinearCase) -> None:
    """Where a row hides every key, gradients are finite and right; those of its queries are zero."""
    case = case.sharpest(impl)
    mask = np.broadcast_to(case.allowed, (case.B, 1, case.S)).copy()
    mask[0] = False
    inputs, component = case.with_inputs(mask=mask), case.loaded(impl)
    seen = component.gradients(inputs, case.cotangents())
    expect_gradients(seen, case.gradients_for(inputs), factor=component.widening)
    expect_zero(seen.inputs["q"][0], "the gradient of queries without keys")


@verifies("M8.10", effort=0.3)
@given(case=linear_cases(causal=False))
def a_row_without_keys_is_zero(impl: JudgedImplementation, case: LinearCase) -> None:
    """Where a row hides every key its output is zero, and the other rows are as they were."""
    mask = np.broadcast_to(case.allowed, (case.B, 1, case.S)).copy()
    mask[0] = False
    inputs, component = case.with_inputs(mask=mask), case.loaded(impl)
    seen, wanted = component(**inputs)["output"], case.output_for(inputs)
    expect_zero(seen[0], "output of a row that hides every key")
    expect_close(seen, wanted, "output", factor=component.widening)
