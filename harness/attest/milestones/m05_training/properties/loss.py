"""M5: cross-entropy over real tokens, its gradients, and label smoothing."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_gradients, expect_refused, expect_same_bits, expect_zero
from attest.checks.layouts import LAYOUTS, laid_out
from attest.checks.training import expect_within, whole_parameters
from attest.contract import Array
from attest.evidence import note_case
from attest.judging.named import ONCE, named
from attest.judging.options import sharpest
from attest.judging.property import given, verifies
from attest.milestones.m05_training.cases.losses import LARGE_LOSSES, LossCase, loss_cases
from attest.milestones.m05_training.cases.training import TrainingCase, training_cases
from attest.outcomes import Expected
from attest.reference.oracle import bounded_gradients

# M5.3 is judged without smoothing, so that a wrong mixture fails M5.7 alone.
SMOOTHED = (0.1, 0.3)
LARGE, LARGE_SMOOTHED = LARGE_LOSSES


def loss_of(impl: JudgedImplementation, case: LossCase, logits: Array, labels: Array) -> Array:
    """The loss component under the case's config."""
    return impl.build("loss", case.config)(logits=logits, labels=labels)["loss"]


def expect_loss(impl: JudgedImplementation, case: LossCase, logits: Array, labels: Array, what: str) -> None:
    """Equal to the reference's."""
    wanted = case.expected_of(logits, labels)
    expect_close(loss_of(impl, case, logits, labels), wanted, what, factor=impl.factor("loss"))


@verifies("M5.3")
@given(case=loss_cases())
def loss_is_the_mean_over_real_tokens(impl: JudgedImplementation, case: LossCase) -> None:
    """The loss is the mean of -log softmax(logits)[label] over labels that are not padding."""
    expect_loss(impl, case, case.logits, case.labels, "loss")


@verifies("M5.3", effort=ONCE)
@given(case=named(LARGE))
def a_large_loss_is_the_mean_over_real_tokens(impl: JudgedImplementation, case: LossCase) -> None:
    """The formula holds at 130 positions and 300 classes."""
    expect_loss(impl, case, case.logits, case.labels, "loss")


@verifies("M5.3", effort=0.5)
@given(case=loss_cases(), rows=st.integers(0, 2), columns=st.integers(0, 3))
def padding_does_not_count(impl: JudgedImplementation, case: LossCase, rows: int, columns: int) -> None:
    """The loss depends neither on the amount of padding nor on the logits there."""
    padded = case.padding(rows, columns)
    what = f"loss with {rows} more rows and {columns} more columns of padding"
    expect_close(loss_of(impl, case, **padded), case.expected, what, factor=2)
    junk = np.where(case.real[..., None], case.logits, np.asarray(1e4, case.logits.dtype))
    plain = loss_of(impl, case, **case.inputs)
    expect_same_bits(loss_of(impl, case, junk, case.labels), plain, "loss with other logits at padding")


@verifies("M5.3", effort=0.5)
@given(case=loss_cases(min_rows=2), cut=st.integers(1, 3))
def loss_does_not_depend_on_the_split(impl: JudgedImplementation, case: LossCase, cut: int) -> None:
    """The token-weighted mean over the parts of a batch is the loss of the batch."""
    least = case.least
    case = case if 2 * least <= case.B else case.but(B=2 * least)
    cut = min(max(cut, least), case.B - least)
    total = 0.0
    for part in (slice(0, cut), slice(cut, None)):
        tokens = int(case.real[part].sum())
        if tokens:
            total += tokens * float(loss_of(impl, case, case.logits[part], case.labels[part]))
    whole = np.asarray(total / int(case.real.sum()))
    expect_close(whole, case.expected, f"the weighted mean of rows up to {cut} and the rest", factor=2)


@verifies("M5.3", effort=0.3)
@given(case=loss_cases(min_rows=2, min_length=2), layout=st.sampled_from(LAYOUTS))
def loss_of_any_memory_layout(impl: JudgedImplementation, case: LossCase, layout: str) -> None:
    """Logits and labels give the same loss in every memory layout."""
    given_ = laid_out(case.inputs, layout)
    seen = impl.build("loss", case.config).as_given(**given_)["loss"]
    expect_close(seen, case.expected_of(**given_), f"loss of {layout} arrays", factor=impl.factor("loss"))


@verifies("M5.12c")
def labels_that_do_not_fit_are_refused(impl: JudgedImplementation) -> None:
    """Labels of another shape or outside the classes raise an exception."""
    case = LossCase(B=3, T=4, V=7, dtype=impl.dtypes[0]).fitted(impl)
    loss = impl.build("loss", case.config)
    for what, changed in case.misfits().items():
        note_case(what, "refusal")
        expect_refused(partial(loss.component, **{**case.inputs, **changed}), what)


@verifies("M5.3", effort=0.5)
@given(case=loss_cases(), size=st.sampled_from((1e4, -1e4)))
def loss_is_stable(impl: JudgedImplementation, case: LossCase, size: float) -> None:
    """The loss is finite and right where the exponential of a logit overflows."""
    huge = (case.draw(case.rng(7), *case.logits.shape, regime="unit") * size).astype(case.logits.dtype)
    expect_loss(impl, case, huge, case.labels, "loss of logits of 1e4")


@verifies("M5.3", effort=0.5)
@given(case=loss_cases(), level=st.sampled_from((0.0, 1.0, -30.0)))
def equal_logits_give_ln_v(impl: JudgedImplementation, case: LossCase, level: float) -> None:
    """Equal logits lose ln V per token, and a batch of padding alone loses 0."""
    flat = np.full_like(case.logits, level)
    wanted = case.expected_of(flat, case.labels)
    assert abs(float(wanted.value) - math.log(case.V)) < 1e-9
    expect_close(loss_of(impl, case, flat, case.labels), wanted, "loss of equal logits")
    nothing = np.full_like(case.labels, case.pad_id)
    expect_zero(loss_of(impl, case, case.logits, nothing), "the loss of padding only")


@verifies("M5.3a")
@given(case=loss_cases(smoothing=(0.0, 0.1)))
def gradients_of_the_loss_are_right(impl: JudgedImplementation, case: LossCase) -> None:
    """The gradient is (softmax - target) over the number of real tokens, exactly zero at padding."""
    case = sharpest(impl, case)
    one = {"loss": np.asarray(1.0, case.logits.dtype)}
    loss = impl.build("loss", case.config)
    # A part of a larger loss is reached by another number than 1.
    for share in (one, {"loss": np.asarray(-2.5, case.logits.dtype)}):
        seen = loss.gradients(case.inputs, share)
        expect_gradients(seen, bounded_gradients("loss", case.config, {}, case.inputs, share))
        expect_zero(seen.inputs["logits"][~case.real], "the gradient at padding")
    nothing = {"logits": case.logits, "labels": np.full_like(case.labels, case.pad_id)}
    expect_zero(loss.gradients(nothing, one).inputs["logits"], "the gradient of padding only")


@verifies("M5.3a", effort=ONCE)
@given(case=named(*(case.but(T=6) for case in LARGE_LOSSES)))
def gradients_of_a_large_loss_are_right(impl: JudgedImplementation, case: LossCase) -> None:
    """The gradient is right at 300 classes, with and without smoothing."""
    gradients_of_the_loss_are_right(impl, case)


@verifies("M5.7", effort=ONCE)
@given(case=named(LARGE_SMOOTHED))
def a_large_loss_is_smoothed(impl: JudgedImplementation, case: LossCase) -> None:
    """The smoothed formula holds at 130 positions and 300 classes."""
    expect_loss(impl, case, case.logits, case.labels, "smoothed loss")


@verifies("M5.7", effort=0.5)
@given(case=loss_cases(smoothing=SMOOTHED), rows=st.integers(0, 2), columns=st.integers(0, 3))
def padding_is_not_smoothed(impl: JudgedImplementation, case: LossCase, rows: int, columns: int) -> None:
    """The smoothed loss depends neither on the amount of padding nor on the logits there."""
    padding_does_not_count(impl, case, rows, columns)


@verifies("M5.7", effort=0.5)
@given(case=loss_cases(smoothing=SMOOTHED, min_rows=2), cut=st.integers(1, 3))
def smoothed_loss_does_not_depend_on_the_split(impl: JudgedImplementation, case: LossCase, cut: int) -> None:
    """The token-weighted mean over the parts of a batch is the smoothed loss of the batch."""
    loss_does_not_depend_on_the_split(impl, case, cut)


@verifies("M5.7")
@given(case=loss_cases(smoothing=(*SMOOTHED, 0.0)))
def smoothing_mixes_with_the_uniform_distribution(impl: JudgedImplementation, case: LossCase) -> None:
    """The target has 1 - e on the label plus e / V on every class."""
    expect_loss(impl, case, case.logits, case.labels, f"loss with smoothing {case.smoothing:g}")


@verifies("M5.7", effort=0.5)
@given(case=loss_cases(smoothing=SMOOTHED), shift=st.sampled_from((5.0, -50.0)))
def smoothed_targets_sum_to_one(impl: JudgedImplementation, case: LossCase, shift: float) -> None:
    """A constant added to the logits changes nothing, and equal logits still give ln V."""
    flat = np.full_like(case.logits, shift)
    seen = loss_of(impl, case, flat, case.labels)
    bound = case.expected_of(flat, case.labels).bound
    expect_close(seen, Expected(np.asarray(math.log(case.V)), 2 * bound), "the smoothed loss of equal logits")
    moved = (case.logits + np.asarray(shift, case.logits.dtype)).astype(case.logits.dtype)
    expect_loss(impl, case, moved, case.labels, f"the smoothed loss with {shift:g} added to every logit")


@verifies("M5.13", effort=0.2)
@given(case=training_cases(smoothing=(0.1,), steps=2))
def evaluation_never_smooths(impl: JudgedImplementation, case: TrainingCase) -> None:
    """The evaluation of a trainer gives the plain loss."""
    if not impl.offers(case.architecture.trainer):
        return
    trainer = case.trainer(impl, case.parameters)
    wanted = case.shadow().evaluation_loss(whole_parameters(trainer), case.batches)
    expect_within(trainer.evaluate(case.batches)["loss"], wanted, "the evaluated loss")
