"""M5: what a caller gives and gets stays the caller's own.

Shapes: streams of ids (B, S) and (B, T), logits (B, T, V).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attest.boundary import JudgedImplementation, arrays_of, fresh, guarded
from attest.boundary.training import JudgedOptimizer, JudgedTrainer
from attest.checks.arrays import expect_same_bits
from attest.checks.side_effects import expect_no_side_effects, overwritten, undisturbed
from attest.checks.training import expect_same_run
from attest.contract import Array, Arrays
from attest.judging.property import given, verifies
from attest.milestones.m05_training.cases.losses import LossCase, loss_cases
from attest.milestones.m05_training.cases.model import TeacherForcedCase, model_cases
from attest.milestones.m05_training.cases.optimisation import AdamCase, adam_cases
from attest.milestones.m05_training.cases.training import TrainingCase, training_cases
from attest.outcomes import NotOffered


@verifies("M5.14", effort=0.2)
@given(case=model_cases())
def the_model_leaves_no_trace(impl: JudgedImplementation, case: TeacherForcedCase) -> None:
    """Ids are unchanged, loaded weights are copied in, and shown parameters are copies."""
    operation = case.architecture.operation
    model = impl.build(operation, case.config)
    loaded = fresh(case.parameters)
    guarded(f"{operation}.load", lambda: model.component.load(loaded))
    before = model(**case.inputs)["logits"]
    expect_no_side_effects(model, case.inputs)
    overwritten(loaded)
    expect_same_bits(
        model(**case.inputs)["logits"], before, "logits after the loaded arrays were overwritten"
    )
    overwritten(guarded(f"{operation}.parameters", model.component.parameters))
    expect_same_bits(model(**case.inputs)["logits"], before, "logits after parameters() was overwritten")


@verifies("M5.14", effort=0.2)
@given(case=loss_cases())
def the_loss_leaves_no_trace(impl: JudgedImplementation, case: LossCase) -> None:
    """Logits and labels are unchanged, and a second call gives the same."""
    if impl.offers("loss"):
        component = impl.build("loss", case.config)
        component(**case.inputs)
        expect_no_side_effects(component, case.inputs)


@verifies("M5.14", effort=0.2)
@given(case=adam_cases())
def the_optimiser_leaves_no_trace(impl: JudgedImplementation, case: AdamCase) -> None:
    """Steps change no array that the optimiser was given or returned; changes of those change no step."""
    if not impl.offers(case.architecture.optimizer):
        return
    start = case.parameters()
    twin, optimizer = (JudgedOptimizer(impl, case.config, start, case.architecture) for _ in range(2))
    loaded = fresh(start)
    guarded("optimizer.load", lambda: optimizer.optimizer.load(loaded))
    for step, rate in enumerate(case.rates[:3]):
        found = fresh(case.gradients(step))
        shown = guarded("optimizer.parameters", optimizer.optimizer.parameters)
        kept = arrays_of(shown, "optimizer.parameters")
        undisturbed("optimizer.step", lambda: optimizer.optimizer.step(found, rate))  # noqa: B023
        expect_kept(found, case.gradients(step), "the gradient {} given to optimizer.step")
        expect_kept(shown, kept, "{} as shown before optimizer.step")
        twin.step(case.gradients(step), rate)
        overwritten(found)
        overwritten(shown)
    expect_kept(loaded, start, "the array {} given to optimizer.load")
    overwritten(loaded)
    overwritten(guarded("optimizer.parameters", optimizer.optimizer.parameters))
    expect_same_run(optimizer.parameters(), twin.parameters(), "after the caller's arrays were overwritten")


@verifies("M5.14", effort=0.2)
@given(case=training_cases(dropout=0.3, steps=3))
def the_trainer_leaves_no_trace(impl: JudgedImplementation, case: TrainingCase) -> None:
    """Batches, copies of the parameters, the global random state and flags are as before."""
    if not impl.offers(case.architecture.trainer):
        return
    trainer = case.trainer(impl, case.parameters)
    trainer.step(case.batches[0])
    for name, use in uses(trainer.trainer).items():
        expect_no_trace_of_training(trainer, f"trainer.{name}", use, case.batches)
    before = trainer.parameters()
    overwritten(guarded(f"{trainer.model.operation}.parameters", trainer.model.component.parameters))
    expect_same_run(trainer.parameters(), before, "after parameters() was overwritten")


def uses(trainer: Any) -> dict[str, Callable[[list[Any]], Any]]:
    """What is done with batches."""

    def step(batches: list[Any]) -> None:
        for batch in batches:
            trainer.step(batch)

    found = {"step": step, "fit": lambda batches: trainer.fit(batches, 2, lambda entry: None)}
    return {**found, "evaluate": lambda batches: trainer.evaluate(batches),
            "accumulate": lambda batches: trainer.accumulate(batches)}  # fmt: skip


def expect_no_trace_of_training(
    trainer: JudgedTrainer, label: str, use: Callable[[list[Any]], Any], batches: Sequence[Arrays]
) -> None:
    """One use of the trainer; a method that it does not offer is passed over."""
    if not callable(getattr(trainer.trainer, label.removeprefix("trainer."), None)):
        return
    batches_given = [fresh(batch) for batch in batches]
    shows = f"{trainer.model.operation}.parameters"
    shown = guarded(shows, trainer.model.component.parameters)
    kept = arrays_of(shown, shows)
    try:
        undisturbed(label, lambda: use(batches_given))
    except NotOffered:
        return
    for seen, batch in zip(batches_given, batches):
        expect_kept(seen, batch, f"the batch's {{}} given to {label}")
    expect_kept(shown, kept, f"{{}} as shown before {label}")


def expect_kept(seen: Mapping[str, Array], wanted: Arrays, what: str) -> None:
    """The caller's arrays are as they were."""
    for name, value in wanted.items():
        expect_same_bits(seen[name], value, what.format(name))
