"""M5: the whole model and its projection."""

from __future__ import annotations

import math
import tempfile

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.boundary.training import JudgedTrainer
from attest.checks.arrays import expect, expect_close, expect_gradients, expect_shape
from attest.checks.training import expect_step, whole_parameters
from attest.contract import Architecture, Array
from attest.evidence import note_case
from attest.judging.named import ONCE, named
from attest.judging.options import sharpest
from attest.judging.property import given, verifies
from attest.milestones.m05_training.cases.model import (
    LARGE_MODEL,
    TeacherForcedCase,
    UntrainedCase,
    model_cases,
)
from attest.milestones.m05_training.cases.training import TrainingCase, training_cases
from attest.outcomes import Expected
from attest.reference.oracle import bounded_gradients, expected


def loaded(impl: JudgedImplementation, case: TeacherForcedCase, **changes: Array) -> JudgedComponent:
    """The model of a case with its weights, some of them replaced."""
    model = impl.build(case.architecture.operation, case.config)
    model.load({**case.parameters, **changes})
    return model


def expect_logits(seen: Array, wanted: Expected, real: Array, what: str, *, factor: float = 1.0) -> None:
    """Where the written stream has a real token; what the model writes under padding is its own affair."""
    expect_shape(seen, wanted.value.shape, what)
    shown = np.where(real[..., None], seen, wanted.value.astype(seen.dtype))
    expect_close(shown, wanted, what, factor=factor)


@verifies("M5.1", effort=0.75)
@given(case=model_cases())
def model_equals_its_formula(impl: JudgedImplementation, case: TeacherForcedCase) -> None:
    """The logits are the reference's, with masks that the model makes from the ids."""
    seen = loaded(impl, case)(**case.inputs)["logits"]
    expect_logits(seen, case.expected, case.real, "logits", factor=impl.factor(case.architecture.operation))


@verifies("M5.1", effort=ONCE)
@given(case=named(LARGE_MODEL))
def a_large_model_equals_its_formula(impl: JudgedImplementation, case: TeacherForcedCase) -> None:
    """The logits are right with six layers, 130 tokens in each stream and 300 ids."""
    model_equals_its_formula(impl, case)


@verifies("M5.1", effort=0.4)
@given(case=model_cases(min_source=3, padded=True))
def forward_is_decode_of_encode(impl: JudgedImplementation, case: TeacherForcedCase) -> None:
    """Encode and decode are each right, and together they give the whole model."""
    model, prompt = loaded(impl, case), {case.architecture.prompt: case.prompt}
    memory = model.method("encode", **prompt)["memory"]
    wanted = expected("encode", case.config, case.parameters, prompt)["memory"]
    expect_logits(memory, wanted, case.prompt != case.pad_id, "memory", factor=model.widening)
    halves = model.method("decode", memory=memory, **case.inputs)["logits"]
    expect_logits(halves, case.expected, case.real, "decode(encode(source))", factor=2)


@verifies("M5.1", effort=0.3)
@given(case=model_cases(min_target=2), cut=st.integers(1, 6))
def logits_of_a_prefix_are_the_prefix_of_the_logits(
    impl: JudgedImplementation, case: TeacherForcedCase, cut: int
) -> None:
    """Later tokens of the written stream change no earlier logits."""
    model = loaded(impl, case)
    length = max(min(cut, case.T - 1), case.least)
    whole = model(**case.inputs)["logits"][:, :length]
    seen = model(**case.cut(length))["logits"]
    wanted = Expected(whole.astype(np.float64), case.expected.bound[:, :length])
    expect_logits(seen, wanted, case.real[:, :length], f"logits of the first {length} positions", factor=2)


@verifies("M5.1", effort=0.3)
@given(case=model_cases(), more=st.integers(1, 4))
def more_padding_changes_nothing(impl: JudgedImplementation, case: TeacherForcedCase, more: int) -> None:
    """Further columns of padding in a stream leave every real position as it was."""
    model = loaded(impl, case)
    whole = model(**case.inputs)["logits"]
    longer = {n: np.pad(x, ((0, 0), (0, more)), constant_values=case.pad_id) for n, x in case.inputs.items()}
    seen = model(**longer)["logits"]
    expect_shape(seen, (case.B, case.T + more, case.num_classes), "logits")
    wanted = Expected(whole.astype(np.float64), case.expected.bound)
    expect_logits(
        seen[:, : case.T], wanted, case.real, f"logits with {more} more columns of padding", factor=2
    )


@verifies("M5.2", effort=0.5)
@given(case=model_cases(bias=True), shift=st.sampled_from((3.0, -7.0)))
def logits_are_raw(impl: JudgedImplementation, case: TeacherForcedCase, shift: float) -> None:
    """Logits are (B, T, V), and a constant on the bias adds that constant to every logit."""
    name, bias = next((n, x) for n, x in case.projection.items() if n.endswith("bias"))
    before = loaded(impl, case)(**case.inputs)["logits"]
    expect_shape(before, (case.B, case.T, case.num_classes), "logits")
    after = loaded(impl, case, **{name: bias + np.asarray(shift, bias.dtype)})(**case.inputs)
    moved = Expected(before + np.float64(shift), 2 * case.expected.bound + 8e-7 * abs(shift))
    expect_logits(after["logits"], moved, case.real, f"logits with {shift:g} added to the bias")


@verifies("M5.2", effort=0.5)
@given(case=model_cases())
def logits_are_linear_in_the_projection(impl: JudgedImplementation, case: TeacherForcedCase) -> None:
    """The last map has no scale and no nonlinearity: double weights give double logits."""
    model = loaded(impl, case)
    single = model(**case.inputs)["logits"]
    expect_logits(single, case.expected, case.real, "logits", factor=model.widening)
    double = loaded(impl, case, **{n: 2 * x for n, x in case.projection.items()})(**case.inputs)["logits"]
    wanted = Expected(2.0 * single.astype(np.float64), 2 * case.expected.bound)
    expect_logits(double, wanted, case.real, "logits for a doubled projection", factor=2)


@verifies("M5.2a", effort=0.3)
@given(case=model_cases(tie=True))
def tied_weights_are_one_array(impl: JudgedImplementation, case: TeacherForcedCase) -> None:
    """There is no second array; the one is used on both sides and scaled only in the lookup."""
    model, weight = loaded(impl, case), f"{case.architecture.projection}.weight"
    expect(weight not in model.parameters(), f"a tied model lists {weight} beside the table it shares")
    seen = model(**case.inputs)["logits"]
    expect_logits(seen, case.expected, case.real, "logits of the tied model", factor=model.widening)


@verifies("M5.2a", effort=0.2)
@given(case=model_cases(tie=True))
def tied_gradients_are_the_sum_of_both_uses(impl: JudgedImplementation, case: TeacherForcedCase) -> None:
    """The gradient of a tied array is the sum over lookup and projection."""
    case = sharpest(impl, case)
    cotangents = {"logits": case.cotangents()["logits"] * case.real[..., None]}
    operation = case.architecture.operation
    wanted = bounded_gradients(operation, case.config, case.parameters, case.inputs, cotangents)
    expect_gradients(loaded(impl, case).gradients(case.inputs, cotangents), wanted)


@verifies("M5.2a", effort=0.1)
@given(case=training_cases(tie=True, steps=3))
def tied_weights_stay_one_array(impl: JudgedImplementation, case: TrainingCase) -> None:
    """After steps, and after saving and loading, both uses still read the same numbers."""
    trainer, shadow = case.trainer(impl, case.parameters), case.shadow()
    for batch in case.batches:
        expect_step(trainer, shadow, [batch])
    expect_model_is_its_parameters(trainer, case)
    again = case.trainer(impl)
    with tempfile.TemporaryDirectory() as directory:
        trainer.save(directory)
        again.load(directory)
    expect_step(again, shadow, [case.batches[0]])
    expect_model_is_its_parameters(again, case)


def expect_model_is_its_parameters(trainer: JudgedTrainer, case: TrainingCase) -> None:
    """The trained model computes what the reference computes from the parameters it shows."""
    inputs = case.architecture.inputs(case.batches[1])
    operation = case.architecture.operation
    wanted = expected(operation, trainer.config, whole_parameters(trainer), inputs)["logits"]
    trainer.model.eval()
    real = inputs[case.architecture.written] != trainer.config.pad_id
    expect_logits(trainer.model(**inputs)["logits"], wanted, real, "logits after training", factor=2)


@verifies("M5.10a")
def first_loss_is_near_ln_v(impl: JudgedImplementation, architecture: Architecture) -> None:
    """The loss of an untrained model is near ln V."""
    for seed, norm in enumerate(("post", "pre")):
        case = UntrainedCase(norm=norm, seed=seed, dtype=impl.dtypes[0], architecture=architecture)
        case = case.fitted(impl)
        norm = case.config.norm  # a family may have one alone
        note_case(f"V=1000 d_model=64 norm={norm}, 16 random rows of length 12", norm)
        logits = impl.build(architecture.operation, case.config)(**case.inputs)["logits"]
        expect_shape(logits, (16, 12, 1000), "logits")
        loss = mean_loss(logits, np.roll(case.inputs[architecture.written], -1, 1))
        expect(
            abs(loss - math.log(1000)) <= 1.2, f"the first loss is {loss:.2f}, should be within 1.2 of 6.91"
        )


def mean_loss(logits: Array, labels: Array) -> float:
    """Cross-entropy of labels (B, T) without padding, in float64."""
    top = logits.max(-1, keepdims=True)
    log_p = logits - top - np.log(np.exp((logits - top).astype(np.float64)).sum(-1, keepdims=True))
    return -float(np.take_along_axis(log_p, labels[..., None], -1).mean())
