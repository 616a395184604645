"""M5: the whole model and its projection."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.boundary.training import JudgedTrainer
from attest.checks.arrays import expect, expect_close, expect_gradients, expect_shape
from attest.checks.training import expect_step, whole_parameters
from attest.contract import Array, Config
from attest.judging.evidence import note_case
from attest.judging.options import sharpest
from attest.judging.property import given, verifies
from attest.milestones.m05_training.cases.model import ModelCase, model_cases
from attest.milestones.m05_training.cases.training import TrainingCase, training_cases
from attest.outcomes import Expected
from attest.reference.oracle import bounded_gradients, expected
from attest.reference.shadow import Shadow


def loaded(impl: JudgedImplementation, case: ModelCase, **changes: Array) -> JudgedComponent:
    """The model of a case with its weights, some of them replaced."""
    model = impl.build("transformer", case.config)
    model.load({**case.parameters, **changes})
    return model


def expect_logits(seen: Array, wanted: Expected, real: Array, what: str, *, factor: float = 1.0) -> None:
    """Where the target is a real token; what the model writes under padding is its own affair."""
    expect_shape(seen, wanted.value.shape, what)
    shown = np.where(real[..., None], seen, wanted.value.astype(seen.dtype))
    expect_close(shown, wanted, what, factor=factor)


@verifies("M5.1", effort=0.75)
@given(case=model_cases())
def model_equals_its_formula(impl: JudgedImplementation, case: ModelCase) -> None:
    """The logits, for masks the model makes from the ids."""
    seen = loaded(impl, case)(**case.inputs)["logits"]
    expect_logits(seen, case.expected, case.real, "logits", factor=impl.factor("transformer"))


@verifies("M5.1", effort=0.4)
@given(case=model_cases(min_source=3, padded=True))
def forward_is_decode_of_encode(impl: JudgedImplementation, case: ModelCase) -> None:
    """The two halves, each right, together give the whole."""
    model = loaded(impl, case)
    memory = model.method("encode", source=case.source)["memory"]
    wanted = expected("encode", case.config, case.parameters, {"source": case.source})["memory"]
    expect_logits(memory, wanted, case.source != case.pad_id, "memory", factor=impl.factor("transformer"))
    halves = model.method("decode", target=case.target, memory=memory, source=case.source)["logits"]
    expect_logits(halves, case.expected, case.real, "decode(encode(source))", factor=2)


@verifies("M5.1", effort=0.3)
@given(case=model_cases(min_target=2), cut=st.integers(1, 6))
def logits_of_a_prefix_are_the_prefix_of_the_logits(
    impl: JudgedImplementation, case: ModelCase, cut: int
) -> None:
    """What comes later in the target changes nothing before it."""
    model = loaded(impl, case)
    length = max(min(cut, case.T - 1), impl.policy.min_size)
    whole = model(**case.inputs)["logits"][:, :length]
    seen = model(source=case.source, target=case.target[:, :length])["logits"]
    wanted = Expected(whole.astype(np.float64), case.expected.bound[:, :length])
    expect_logits(seen, wanted, case.real[:, :length], f"logits of the first {length} positions", factor=2)


@verifies("M5.1", effort=0.3)
@given(case=model_cases(), more=st.integers(1, 4))
def more_padding_changes_nothing(impl: JudgedImplementation, case: ModelCase, more: int) -> None:
    """Columns of padding on both sides leave every real position where it was."""
    model = loaded(impl, case)
    whole = model(**case.inputs)["logits"]
    longer = {n: np.pad(x, ((0, 0), (0, more)), constant_values=case.pad_id) for n, x in case.inputs.items()}
    seen = model(**longer)["logits"]
    expect_shape(seen, (case.B, case.T + more, case.target_vocab), "logits")
    wanted = Expected(whole.astype(np.float64), case.expected.bound)
    expect_logits(
        seen[:, : case.T], wanted, case.real, f"logits with {more} more columns of padding", factor=2
    )


@verifies("M5.2", effort=0.5)
@given(case=model_cases(bias=True), shift=st.sampled_from((3.0, -7.0)))
def logits_are_raw(impl: JudgedImplementation, case: ModelCase, shift: float) -> None:
    """(B, T, V); a constant on the bias comes out as that constant on every logit."""
    bias = case.parameters["projection.bias"]
    before = loaded(impl, case)(**case.inputs)["logits"]
    expect_shape(before, (case.B, case.T, case.target_vocab), "logits")
    after = loaded(impl, case, **{"projection.bias": bias + np.asarray(shift, bias.dtype)})(**case.inputs)
    moved = Expected(before + np.float64(shift), 2 * case.expected.bound + 8e-7 * abs(shift))
    expect_logits(after["logits"], moved, case.real, f"logits with {shift:g} added to the bias")


@verifies("M5.2", effort=0.5)
@given(case=model_cases())
def logits_are_linear_in_the_projection(impl: JudgedImplementation, case: ModelCase) -> None:
    """No scale and no nonlinearity: the last map is what its weights say, and double weights double it."""
    names = [n for n in ("projection.weight", "projection.bias") if n in case.parameters]
    single = loaded(impl, case)(**case.inputs)["logits"]
    expect_logits(single, case.expected, case.real, "logits", factor=impl.factor("transformer"))
    double = loaded(impl, case, **{n: 2 * case.parameters[n] for n in names})(**case.inputs)["logits"]
    wanted = Expected(2.0 * single.astype(np.float64), 2 * case.expected.bound)
    expect_logits(double, wanted, case.real, "logits for a doubled projection", factor=2)


@verifies("M5.2a", effort=0.3)
@given(case=model_cases(tie=True))
def tied_weights_are_one_array(impl: JudgedImplementation, case: ModelCase) -> None:
    """No second array, and the one is used on both sides, scaled only where it is looked up."""
    model = loaded(impl, case)
    expect("projection.weight" not in model.parameters(), "a tied model has a projection.weight of its own")
    seen = model(**case.inputs)["logits"]
    expect_logits(
        seen, case.expected, case.real, "logits of the tied model", factor=impl.factor("transformer")
    )


@verifies("M5.2a", effort=0.2)
@given(case=model_cases(tie=True))
def tied_gradients_are_the_sum_of_both_uses(impl: JudgedImplementation, case: ModelCase) -> None:
    """Lookup and projection both teach the array."""
    case = sharpest(impl, case)
    cotangents = {"logits": case.cotangents()["logits"] * case.real[..., None]}
    wanted = bounded_gradients("transformer", case.config, case.parameters, case.inputs, cotangents)
    expect_gradients(loaded(impl, case).gradients(case.inputs, cotangents), wanted)


@verifies("M5.2a", effort=0.1)
@given(case=training_cases(tie=True, steps=3))
def tied_weights_stay_one_array(impl: JudgedImplementation, case: TrainingCase) -> None:
    """After steps, and after saving and loading, both uses are still the same numbers."""
    import tempfile

    trainer, shadow = JudgedTrainer(impl, case.config, case.parameters), Shadow(case.config)
    for batch in case.batches:
        expect_step(trainer, shadow, [batch])
    expect_model_is_its_parameters(trainer, case)
    again = JudgedTrainer(impl, case.config)
    with tempfile.TemporaryDirectory() as directory:
        trainer.save(directory)
        again.load(directory)
    expect_step(again, shadow, [case.batches[0]])
    expect_model_is_its_parameters(again, case)


def expect_model_is_its_parameters(trainer: JudgedTrainer, case: TrainingCase) -> None:
    """The trained model computes what the reference computes from the parameters it shows."""
    batch = case.batches[1]
    inputs = {"source": batch["source"], "target": batch["target"][:, :-1]}
    wanted = expected("transformer", trainer.config, whole_parameters(trainer), inputs)["logits"]
    trainer.model.eval()
    real = inputs["target"] != trainer.config.pad_id
    expect_logits(trainer.model(**inputs)["logits"], wanted, real, "logits after training", factor=2)


@verifies("M5.10a")
def first_loss_is_near_ln_v(impl: JudgedImplementation) -> None:
    """An untrained model says that it knows nothing."""
    depth = 1 if impl.policy.one_config else 2
    config = Config(
        d_model=64, num_heads=4, d_ff=256, num_encoder_layers=depth, num_decoder_layers=depth,
        source_vocab=1000, target_vocab=1000, max_len=64, dtype=impl.dtypes[0],
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for norm in ("post", "pre"):
        note_case(f"V=1000 d_model=64 norm={norm}, 16 random pairs of length 12", norm)
        source, target = rng.integers(3, 1000, (2, 16, 12))
        logits = impl.build("transformer", config.but(norm=norm))(source=source, target=target)["logits"]
        expect_shape(logits, (16, 12, 1000), "logits")
        labels = np.roll(target, -1, 1)
        top = logits.max(-1, keepdims=True)
        log_p = logits - top - np.log(np.exp((logits - top).astype(np.float64)).sum(-1, keepdims=True))
        loss = -float(np.take_along_axis(log_p, labels[..., None], -1).mean())
        expect(
            abs(loss - math.log(1000)) <= 1.2, f"the first loss is {loss:.2f}, should be within 1.2 of 6.91"
        )
