"""M1: masks of padding and of the future, how they combine, and queries that see nothing."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import (
    expect_close,
    expect_gradients,
    expect_mask,
    expect_same_bits,
    expect_shape,
    expect_zero,
)
from attest.judging.property import given, verifies
from attest.judging.regimes import LENGTH
from attest.milestones.m01_attention.cases.attention import (
    BLIND,
    FORMS,
    HIDING,
    AttentionCase,
    attention_cases,
    weights_of,
)
from attest.milestones.m01_attention.cases.masks import MaskCase, mask_cases
from attest.outcomes import Expected

# Also beyond the ranges of int8 (127) and uint8 (255), and beyond a block of 64.
LENGTHS = st.one_of(st.integers(1, 9), st.sampled_from((65, LENGTH, 260)))


@verifies("M1.4", large=2)
@given(case=attention_cases(masks=HIDING, min_keys=2), junk=st.sampled_from((1e6, 1e3, 1.0)))
def masked_keys_are_inert(impl: JudgedImplementation, case: AttentionCase, junk: float) -> None:
    """Hidden keys have weight zero, and what stands behind them cannot reach the output."""
    component = case.loaded(impl)
    weights = weights_of(component, case.inputs)
    expect_shape(weights, case.visible.shape, "weights")
    expect_zero(weights[~case.visible], "the weight of a hidden key")
    before = component(**case.inputs)["output"]
    expect_same_bits(component(**case.spoiled(junk))["output"], before, "output")


@verifies("M1.4")
@given(case=attention_cases(masks=("pairs", "shared"), min_keys=2), junk=st.sampled_from((1e6, 1e3)))
def a_key_is_inert_for_those_who_do_not_see_it(
    impl: JudgedImplementation, case: AttentionCase, junk: float
) -> None:
    """Junk in a key leaves every query that does not see the key as it was."""
    component = case.loaded(impl)
    spoiled, blind = case.spoiled_for_some(junk)
    before, after = component(**case.inputs)["output"], component(**spoiled)["output"]
    expect_shape(before, case.expected["output"].value.shape, "output")
    expect_same_bits(after[blind], before[blind], "output of the queries that do not see the junk")


@verifies("M1.4")
@given(
    case=attention_cases(masks=("keys", "pairs"), min_keys=2, regimes=("unit",)),
    depth=st.sampled_from((2e4, 2e5)),
)
def masked_keys_are_inert_below_any_fill(
    impl: JudgedImplementation, case: AttentionCase, depth: float
) -> None:
    """Visible scores far below any finite fill value still win over hidden ones."""
    # Depths of 2e4 and 2e5 lie below the fills -1e4 and -1e5 that code uses in place of minus infinity.
    inputs = case.with_scores_below(depth)
    component, wanted = case.loaded(impl), case.expected_for(inputs)["output"]
    weights = weights_of(component, inputs)
    expect_shape(weights, case.visible.shape, "weights")
    expect_zero(weights[~case.visible], "the weight of a hidden key")
    expect_close(component(**inputs)["output"], wanted, "output", factor=component.widening)


@verifies("M1.4")
@given(case=attention_cases(masks=("keys",), causal=False, min_keys=2))
def masking_equals_deleting(impl: JudgedImplementation, case: AttentionCase) -> None:
    """Leaving hidden keys out of a row gives what masking them gives."""
    component, bound = case.loaded(impl), case.expected["output"].bound
    whole = component(**case.inputs)["output"]
    for b in range(case.B):
        seen = case.visible[b].reshape(-1, case.S)[0]
        q, k, v = (case.inputs[n][b : b + 1] for n in "qkv")
        alone = component(q=q, k=k[..., seen, :], v=v[..., seen, :])["output"]
        wanted = Expected(alone.astype(np.float64), bound[b : b + 1])
        expect_close(whole[b : b + 1], wanted, "output, against deleted keys,", factor=2 * component.widening)


@verifies("M1.4", effort=0.5)
@given(case=attention_cases(masks=HIDING, min_keys=2))
def a_mask_of_integers_is_not_ignored(impl: JudgedImplementation, case: AttentionCase) -> None:
    """Zeros and ones of an integer type are honoured or refused."""
    component = case.loaded(impl)
    seen = component.accepted(**case.with_inputs(mask=case.allowed.astype(np.int64)))
    if seen is not None:
        what = "output for a mask of integers"
        expect_close(seen["output"], case.expected["output"], what, factor=component.widening)


@verifies("M1.4a")
@given(
    case=attention_cases(masks=("keys", "pairs"), min_keys=2),
    junk=st.sampled_from((math.nan, math.inf, -math.inf, 1e30)),
)
def non_finite_junk_is_inert(impl: JudgedImplementation, case: AttentionCase, junk: float) -> None:
    """NaN and infinity behind the mask do not come through."""
    component = case.loaded(impl)
    before = component(**case.inputs)["output"]
    expect_same_bits(component(**case.spoiled(junk))["output"], before, "output")


@verifies("M1.4b", large=2)
@given(case=mask_cases())
def length_mask_hides_the_tail(impl: JudgedImplementation, case: MaskCase) -> None:
    """The mask is True below the length of the row."""
    wanted = (np.arange(case.S) < case.row_lengths[:, None])[:, None, :]
    expect_mask(impl.call("length_mask", case.row_lengths, case.S), wanted, "length_mask")


@verifies("M1.4c", large=2)
@given(case=mask_cases())
def padding_mask_hides_the_pads(impl: JudgedImplementation, case: MaskCase) -> None:
    """The mask is True where the id is not the pad id, for any pad id."""
    wanted = (case.ids != case.pad_id)[:, None, :]
    expect_mask(impl.call("padding_mask", case.ids, case.pad_id), wanted, "padding_mask")


@verifies("M1.4c")
@given(case=mask_cases())
def pads_are_hidden_wherever_they_stand(impl: JudgedImplementation, case: MaskCase) -> None:
    """Pads are hidden before, between and after the tokens of a row."""
    for where, ids in (("on the left", case.ids[:, ::-1].copy()), ("in between", case.scattered)):
        seen = impl.call("padding_mask", ids, case.pad_id)
        expect_mask(seen, (ids != case.pad_id)[:, None, :], f"padding_mask of pads {where}")


@verifies("M1.5", large=2)
@given(case=attention_cases(causal=True))
def weights_of_the_future_are_zero(impl: JudgedImplementation, case: AttentionCase) -> None:
    """Weights after the diagonal are zero, and those on the diagonal are not."""
    component = case.loaded(impl)
    weights = weights_of(component, case.inputs)
    expect_shape(weights, case.visible.shape, "weights")
    expect_zero(weights[~case.visible], "the weight of a later position")
    expect_close(weights, case.expected["weights"], "weights", factor=2 * component.widening)


@verifies("M1.5", large=2)
@given(
    case=attention_cases(causal=True, square=True, min_keys=2, masks=("none", "keys")),
    cut=st.integers(0, 7),
    change=st.sampled_from((3.0, 1e6)),
)
def the_future_is_hidden(impl: JudgedImplementation, case: AttentionCase, cut: int, change: float) -> None:
    """Changing what comes after a position leaves the output up to it as it was."""
    component = case.loaded(impl)
    last = cut % max(1, case.S - 1)
    changed = {n: case.inputs[n].copy() for n in "qkv"}
    for array in changed.values():
        array[..., last + 1 :, :] += case.in_range(change)
    before = component(**case.inputs)["output"][..., : last + 1, :]
    after = component(**case.with_inputs(**changed))["output"][..., : last + 1, :]
    expect_same_bits(after, before, f"output up to position {last}")


@verifies("M1.5a")
@given(T=LENGTHS, S=LENGTHS)
def causal_mask_is_bottom_right(impl: JudgedImplementation, T: int, S: int) -> None:
    """Query i sees keys up to i + S - T, whatever sizes were asked for before."""
    wanted = np.asarray(np.arange(S) <= np.arange(T)[:, None] + S - T)
    expect_mask(impl.call("causal_mask", T, S), wanted, "causal_mask")
    # One key more, then the first lengths again: a mask kept from an earlier call must not be handed out.
    longer = np.asarray(np.arange(S + 1) <= np.arange(T)[:, None] + S + 1 - T)
    expect_mask(impl.call("causal_mask", T, S + 1), longer, "causal_mask of one key more")
    expect_mask(impl.call("causal_mask", T, S), wanted, "causal_mask after a call of other lengths")


@verifies("M1.6", large=2)
@given(case=attention_cases(masks=FORMS, min_keys=2))
def every_form_equals_its_expansion(impl: JudgedImplementation, case: AttentionCase) -> None:
    """A mask that broadcasts acts like the same mask written out."""
    component, wanted = case.loaded(impl), case.expected["output"]
    written = np.broadcast_to(case.allowed, case.visible.shape).copy()
    expanded = component(**case.with_inputs(mask=written))["output"]
    expect_close(component(**case.inputs)["output"], wanted, "output", factor=component.widening)
    expect_close(expanded, wanted, "output for the mask written out", factor=component.widening)


@verifies("M1.6")
@given(case=attention_cases(masks=("keys",), min_keys=2, min_batch=2, causal=False, equal=("B=T", "B=H")))
def axes_of_equal_length_are_not_confused(impl: JudgedImplementation, case: AttentionCase) -> None:
    """A mask per row of the batch hides keys of that row, also where B == T or B == H."""
    component = case.loaded(impl)
    weights = weights_of(component, case.inputs)
    expect_shape(weights, case.visible.shape, "weights")
    expect_zero(weights[~case.visible], "the weight of a key hidden in its row")
    expect_close(weights, case.expected["weights"], "weights", factor=component.widening)


@verifies("M1.6", large=2)
@given(case=attention_cases(masks=HIDING, causal=True, min_keys=2))
def masks_combine_as_allowed_by_all(impl: JudgedImplementation, case: AttentionCase) -> None:
    """A key is visible where the mask and causality both allow it, in every call anew."""
    component = case.loaded(impl)
    weights = weights_of(component, case.inputs)
    expect_shape(weights, case.visible.shape, "weights")
    expect_zero(weights[~case.visible], "the weight of a key that one of the masks hides")
    expect_close(weights, case.expected["weights"], "weights", factor=component.widening)
    # The same component again: one that keeps a combined mask by its shape would answer with the old one.
    for what, other in (("another mask", case.but(seed=case.seed + 1)), ("no mask", case.but(mask="none"))):
        other = other.fitted(impl)
        seen, wanted = component(**other.inputs)["output"], other.expected["output"]
        expect_close(seen, wanted, f"output for {what} in the next call", factor=component.widening)


@verifies("M1.11", large=2)
@given(case=attention_cases(masks=("keys", "pairs")), way=st.sampled_from(BLIND))
def blind_queries_give_zeros(impl: JudgedImplementation, case: AttentionCase, way: str) -> None:
    """A query that sees nothing has zero output and weights; other queries are not affected."""
    component = case.loaded(impl)
    inputs, blind = case.blinded(way)
    wanted = case.expected_for(inputs)
    output, weights = component(**inputs)["output"], weights_of(component, inputs)
    expect_shape(weights, wanted["weights"].value.shape, "weights")
    expect_close(output, wanted["output"], "output", factor=2 * component.widening)
    expect_zero(output[blind], "the output of a query that sees nothing")
    expect_zero(weights[blind], "a weight of a query that sees nothing")


@verifies("M1.11", effort=0.3)
@given(case=attention_cases(masks=("none",), causal=False, min_keys=2))
def a_mask_of_one_column_holds_for_every_key(impl: JudgedImplementation, case: AttentionCase) -> None:
    """With a mask (T, 1) a query sees every key or none; one who does not take it refuses it."""
    sees = case.rng(5).random((case.T, 1)) < 0.5
    sees[case.seed % case.T] = False
    component, inputs = case.loaded(impl), case.with_inputs(mask=sees)
    seen = component.accepted(**inputs)
    if seen is not None:
        wanted = case.expected_for(inputs)["output"]
        expect_close(seen["output"], wanted, "output", factor=2 * component.widening)
        blind = np.broadcast_to(~sees[:, 0], wanted.value.shape[:-1])
        expect_zero(seen["output"][blind], "the output of a query that sees nothing")


@verifies("M1.11a")
@given(case=attention_cases(masks=("keys", "pairs"), regimes=("unit",)), way=st.sampled_from(BLIND))
def blind_queries_do_not_spoil_gradients(impl: JudgedImplementation, case: AttentionCase, way: str) -> None:
    """Gradients are finite, zero for queries that see nothing, and right for the others."""
    case = case.sharpest(impl)
    component = case.loaded(impl)
    inputs, blind = case.blinded(way)
    seen = component.gradients(inputs, case.cotangents())
    expect_gradients(seen, case.gradients_for(inputs), factor=component.widening)
    expect_zero(seen.inputs["q"][blind], "the gradient of a query that sees nothing")
