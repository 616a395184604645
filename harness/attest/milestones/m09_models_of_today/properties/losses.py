"""M9: the loss of a language model."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_same_bits, expect_zero
from attest.judging.laws import FORMULA, GRADIENTS, ROW_ALONE, SIDE_EFFECTS, law_holds, law_is_exempt
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.losses import TextLossCase, text_loss_cases

law_holds(
    FORMULA,
    "M9.7",
    text_loss_cases(),
    "language_model_loss",
    name="text_loss_equals_its_formula",
    sentence="The mean of -log softmax(logits at t)[ids at t + 1] over the real tokens that follow another.",
)
law_holds(GRADIENTS, "M9.7", text_loss_cases(), "language_model_loss", name="gradients_of_the_text_loss")
law_holds(
    SIDE_EFFECTS,
    "M9.7",
    text_loss_cases(),
    "language_model_loss",
    name="the_text_loss_leaves_no_trace",
    effort=0.25,
)
law_is_exempt(ROW_ALONE, "language_model_loss", reason="it is a mean over all rows; M9.7 judges the split")


@verifies("M9.7", effort=0.5)
@given(case=text_loss_cases())
def the_last_position_teaches_nothing(impl: JudgedImplementation, case: TextLossCase) -> None:
    """The gradient is exactly zero at the last position and wherever padding follows."""
    component = case.loaded(impl)
    found = component.gradients(case.inputs, case.cotangents()).inputs["logits"]
    expect_zero(found[:, -1], "the gradient at the last position")
    expect_zero(found[~case.asked], "the gradient where no real token follows")


@verifies("M9.7", effort=0.5)
@given(case=text_loss_cases(), junk=st.sampled_from((1e4, -1e4)))
def what_is_not_asked_does_not_count(impl: JudgedImplementation, case: TextLossCase, junk: float) -> None:
    """Other logits at the last position, and where padding follows, change no bit of the loss."""
    component = case.loaded(impl)
    logits = case.inputs["logits"]
    other = np.where(case.asked[..., None], logits, np.asarray(case.in_range(junk), logits.dtype))
    before = component(**case.inputs)["loss"]
    expect_same_bits(component(logits=other, ids=case.ids)["loss"], before, "loss with other logits there")


@verifies("M9.7", effort=0.5)
@given(case=text_loss_cases(min_rows=2), cut=st.integers(1, 3))
def rows_are_weighted_by_their_tokens(impl: JudgedImplementation, case: TextLossCase, cut: int) -> None:
    """The losses of parts of a batch, weighted by their tokens, give the loss of the batch."""
    case = case if 2 * case.least <= case.B else case.but(B=2 * case.least)
    cut, total = min(max(cut, case.least), case.B - case.least), 0.0
    component = case.loaded(impl)
    for part in (slice(0, cut), slice(cut, None)):
        if tokens := int(case.asked[part].sum()):
            total += tokens * float(component(logits=case.inputs["logits"][part], ids=case.ids[part])["loss"])
    whole = np.asarray(total / max(int(case.asked.sum()), 1))
    expect_close(whole, case.output, f"the weighted mean of rows up to {cut} and the rest", factor=2)


@verifies("M9.7", effort=0.5)
@given(case=text_loss_cases(), columns=st.integers(1, 3))
def more_padding_leaves_the_loss(impl: JudgedImplementation, case: TextLossCase, columns: int) -> None:
    """Columns of padding on the right leave the loss, and padding alone has none."""
    component = case.loaded(impl)
    room = ((0, 0), (0, columns))
    logits = np.pad(case.inputs["logits"], (*room, (0, 0)), mode="edge")
    longer = component(logits=logits, ids=np.pad(case.ids, room, constant_values=case.pad_id))["loss"]
    expect_close(longer, case.output, f"loss with {columns} more columns of padding", factor=2)
    nothing = component(logits=case.inputs["logits"], ids=np.full_like(case.ids, case.pad_id))["loss"]
    expect_zero(nothing, "the loss of padding only")
