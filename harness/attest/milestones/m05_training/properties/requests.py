"""M5: steps, intervals and checkpoints that cannot be meant."""

from __future__ import annotations

import tempfile
from functools import partial
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_refused
from attest.checks.training import expect_same_run
from attest.contract import Architecture
from attest.contract.architectures import SHIFTED
from attest.evidence import note_case
from attest.judging.property import verifies
from attest.milestones.m05_training.cases.training import TrainingCase


def plain_case(impl: JudgedImplementation, architecture: Architecture) -> TrainingCase:
    """A case that is not drawn."""
    return TrainingCase(steps=1, dtype=impl.dtypes[0], architecture=architecture).fitted(impl)


@verifies("M5.12b")
def a_schedule_counts_from_one(impl: JudgedImplementation, architecture: Architecture) -> None:
    """Step 0, negative steps and fractions are refused."""
    if not impl.offers("learning_rate"):
        note_case("learning_rate is not offered", "refusal")
        return
    rate = impl.construct("learning_rate", impl.with_run_options(plain_case(impl, architecture).config))
    for step in (0, -1, 2.5):
        _expect_refused(f"the learning rate of step {step}", partial(rate, step=step))


@verifies("M5.12b")
def a_log_interval_is_at_least_one(impl: JudgedImplementation, architecture: Architecture) -> None:
    """A log interval below one is refused before any step."""
    case = plain_case(impl, architecture)
    # 0 divides by zero in the middle of a run, and a negative interval never logs.
    for interval in (0, -1):
        trainer = case.trainer(impl, case.parameters)
        before = trainer.parameters()
        fit = partial(trainer.trainer.fit, list(case.batches), interval, lambda entry: None)
        _expect_refused(f"fit with log_every={interval}", fit)
        expect_same_run(trainer.parameters(), before, f"after fit with log_every={interval} was refused")


@verifies("M5.12b")
def a_batch_has_something_to_predict(impl: JudgedImplementation, architecture: Architecture) -> None:
    """A batch without a stream, or whose labels are none, is refused, and the parameters stay."""
    case = plain_case(impl, architecture)
    trainer, batch, written = case.trainer(impl, case.parameters), case.batches[0], architecture.written
    before = trainer.parameters()
    wrong = {f"a batch without {name}": {n: x for n, x in batch.items() if n != name} for name in batch
             if name in (written, "labels")}  # fmt: skip
    if architecture.labels == SHIFTED:
        wrong[f"a batch whose {written} has one column"] = {**batch, written: batch[written][:, :1]}
    else:
        labels, beyond = batch["labels"], architecture.num_classes(case.config)
        wrong["a batch with a label too few"] = {**batch, "labels": labels[..., :-1]}
        for value in (-1, beyond):
            wrong[f"a batch with the label {value}"] = {**batch, "labels": np.full_like(labels, value)}
    for what, given in wrong.items():
        _expect_refused(f"a step with {what}", partial(trainer.trainer.step, given))
        expect_same_run(trainer.parameters(), before, f"after {what} was refused")


@verifies("M5.12b")
def a_checkpoint_of_another_model_is_refused(impl: JudgedImplementation, architecture: Architecture) -> None:
    """A checkpoint of another width or depth is refused, and the parameters stay."""
    case = plain_case(impl, architecture)
    if case.fixed:
        note_case("every config costs a build", "refusal")
        return
    trainer = case.trainer(impl, case.parameters)
    before = trainer.parameters()
    for what, other in _other_models(case):
        with tempfile.TemporaryDirectory() as directory:
            other.trainer(impl, other.parameters).save(directory)
            _expect_refused(f"a checkpoint of a model with {what}", partial(trainer.trainer.load, directory))
        expect_same_run(trainer.parameters(), before, f"after a checkpoint with {what} was refused")


def _other_models(case: TrainingCase) -> list[tuple[str, TrainingCase]]:
    deeper = case.but(layers=case.layers + 1)
    wider = case.but(vocab=case.vocab + 1)
    return [("a layer more", deeper), ("a token more", wider)]


def _expect_refused(what: str, call: Any) -> None:
    note_case(what, "refusal")
    expect_refused(call, what)
