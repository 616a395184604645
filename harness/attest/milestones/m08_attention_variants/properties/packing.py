"""M8: documents side by side in one row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_gradients, expect_refused, expect_same_bits
from attest.contract import Array
from attest.judging.property import given, verifies
from attest.milestones.m08_attention_variants.cases.models import PackedCase, packed_cases
from attest.outcomes import Expected


@verifies("M8.12")
@given(case=packed_cases())
def a_packed_document_equals_the_document_alone(impl: JudgedImplementation, case: PackedCase) -> None:
    """Its logits are those of a call with the document by itself."""
    component = case.loaded(impl)
    seen = component.method("packed", **case.packing)["logits"]
    bound = case.wanted["logits"].bound
    for row, place in case.documents:
        alone = component(ids=np.repeat(case.ids[row : row + 1, place], case.least, axis=0))["logits"][:1]
        wanted = Expected(alone.astype(np.float64), bound[row : row + 1, place])
        what = f"logits of the document at {place.start} to {place.stop} of row {row}"
        expect_close(seen[row : row + 1, place], wanted, what, factor=2 * component.widening)


@verifies("M8.12", large=1)
@given(case=packed_cases())
def packed_logits_and_loss_equal_their_formula(impl: JudgedImplementation, case: PackedCase) -> None:
    """The loss is the mean over the tokens that follow another of their document; 0 where none does."""
    component = case.loaded(impl)
    seen = component.method("packed", **case.packing)
    logits = np.where(inside(case), seen["logits"], case.wanted["logits"].value)
    expect_close(logits, case.wanted["logits"], "packed logits", factor=component.widening)
    expect_close(seen["loss"], case.wanted["loss"], "packed loss", factor=component.widening)


def inside(case: PackedCase) -> Array:
    """(B, T, 1): where a position belongs to a document."""
    made = np.zeros((case.B, case.T, 1), bool)
    for row, place in case.documents:
        made[row, place] = True
    return made


@verifies("M8.12", effort=0.5)
@given(case=packed_cases())
def the_packed_loss_is_that_of_the_documents(impl: JudgedImplementation, case: PackedCase) -> None:
    """Weighted by their predicted tokens, the losses of the documents alone give the loss of the row."""
    component = case.loaded(impl)
    seen = float(component.method("packed", **case.packing)["loss"])
    total, count = 0.0, 0
    for row, place in case.documents:
        ids = case.ids[row : row + 1, place]
        logits = component(ids=np.repeat(ids, case.least, axis=0))["logits"][:1, :-1].astype(np.float64)
        logs = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
        logs -= logits.max(-1, keepdims=True)
        total -= float(np.take_along_axis(logs, ids[:, 1:, None], axis=-1).sum())
        count += ids.shape[1] - 1
    wanted = Expected(np.asarray(total / max(count, 1)), 2 * case.wanted["loss"].bound + bound_of(case))
    expect_close(np.asarray(seen), wanted, "packed loss", factor=component.widening)


def bound_of(case: PackedCase) -> Array:
    """Logits alone are off by their bound, and move a loss by at most twice that."""
    return np.asarray(2 * float(np.max(case.wanted["logits"].bound, initial=0.0)))


@verifies("M8.12", effort=0.3)
@given(case=packed_cases())
def a_row_may_be_longer_than_the_positions(impl: JudgedImplementation, case: PackedCase) -> None:
    """Positions count from 0 in each document, so max_len is a limit of documents and not of their row."""
    short = case.but(room=max(1, int(case.lengths_of.max())))
    component = short.loaded(impl)
    seen = component.method("packed", **short.packing)["logits"]
    logits = np.where(inside(short), seen, short.wanted["logits"].value)
    what = f"logits of a row of {case.T} tokens with max_len={short.room}"
    expect_close(logits, short.wanted["logits"], what, factor=component.widening)


@verifies("M8.12", effort=0.5)
@given(case=st.one_of(packed_cases(window=2), packed_cases(window=1), packed_cases(window=3)))
def packed_documents_have_their_window(impl: JudgedImplementation, case: PackedCase) -> None:
    """Each document of a row, the last one too, looks back as far as it does alone."""
    component = case.loaded(impl)
    seen = component.method("packed", **case.packing)["logits"]
    logits = np.where(inside(case), seen, case.wanted["logits"].value)
    expect_close(logits, case.wanted["logits"], "packed logits", factor=component.widening)


@verifies("M8.12", effort=0.5)
@given(case=packed_cases())
def a_neighbour_document_is_inert(impl: JudgedImplementation, case: PackedCase) -> None:
    """With the tokens of the first document exchanged, those of the others give the same bits."""
    component = case.loaded(impl)
    expect_apart(case, lambda ids: component.method("packed", ids=ids, lengths=case.lengths_of)["logits"])


@verifies("M8.12", effort=0.3)
@given(case=packed_cases())
def a_neighbour_document_is_inert_in_training(impl: JudgedImplementation, case: PackedCase) -> None:
    """In train mode, with the same seed, documents do not see each other either."""
    component = case.loaded(impl)

    def said(ids: Array) -> Array:
        component.train(case.seed)
        return component.method("packed", ids=ids, lengths=case.lengths_of)["logits"]

    try:
        expect_apart(case, said)
    finally:
        component.eval()


def expect_apart(case: PackedCase, said: Callable[[Array], Array]) -> None:
    """The logits of the documents behind the first keep their bits when its tokens change."""
    if len(case.documents) < 2 or case.documents[1][0] != 0:
        return
    first, ids = case.documents[0][1], case.ids.copy()
    ids[0, first] = case.another(ids[0, first])
    before, after = said(case.ids), said(ids)
    rest = slice(first.stop, int(case.lengths_of[0].sum()))
    expect_same_bits(after[0, rest], before[0, rest], "logits of the documents behind the first")


@verifies("M8.12", effort=0.3)
@given(case=packed_cases())
def packing_beside_a_cache(impl: JudgedImplementation, case: PackedCase) -> None:
    """A cache that is under way changes no bit of a packed call, and goes on behind it as before."""
    component = case.loaded(impl)
    before = component.method("packed", **case.packing)["logits"]
    ids = np.where(case.ids[:, :1] == case.config.pad_id, case.config.bos_id, case.ids[:, :1])
    if not hasattr(component.component, "start"):
        return
    _, state = component.step(component.start(case.B), ids)
    again = component.method("packed", **case.packing)["logits"]
    shown = inside(case)
    expect_same_bits(np.where(shown, again, 0), np.where(shown, before, 0), "packed logits beside a cache")
    seen, _ = component.step(state, ids)
    plain = component(ids=np.concatenate([ids, ids], axis=1))["logits"][:, 1:].astype(np.float64)
    bound = case.expected_for({"ids": np.concatenate([ids, ids], axis=1)})["logits"].bound[:, 1:]
    expect_close(seen, Expected(plain, bound), "a step behind a packed call", factor=2 * component.widening)


@verifies("M8.12a", effort=0.5)
@given(case=packed_cases())
def gradients_of_packed_documents(impl: JudgedImplementation, case: PackedCase) -> None:
    """Of the packed loss, for every parameter."""
    case = case.sharpest(impl)
    component = case.loaded(impl)
    seen = component.gradients(case.packing, case.loss_cotangent)
    expect_gradients(seen, case.packed_gradients(), factor=component.widening)


@verifies("M8.17", effort=0.3)
@given(case=packed_cases())
def documents_that_do_not_fit_are_refused(impl: JudgedImplementation, case: PackedCase) -> None:
    """Lengths whose sum exceeds the row, and negative ones, raise."""
    component = case.loaded(impl)
    expect(hasattr(component.component, "packed"), "packed documents are claimed, but there is no packed()")
    longer = case.lengths_of.copy()
    longer[0, 0] += case.T + 1 - longer[0].sum()
    for what, lengths in {"too many tokens": longer, "a negative length": -np.ones_like(longer)}.items():
        refused = partial(component.component.packed, ids=case.ids.copy(), lengths=lengths)
        expect_refused(refused, f"packed documents of {what}")
