"""M5: it learns. Everything before this says where a fault is; this says only whether there is one."""

from __future__ import annotations

import math
from itertools import cycle, islice

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer, finite_number
from attest.checks.arrays import expect
from attest.contract import Architecture, Array
from attest.evidence import current, note_case
from attest.judging.property import verifies
from attest.milestones.m05_training.cases.convergence import SYMBOLS, OneSymbolCase
from attest.trained.tasks import EOS, TRAINING, Task, words
from attest.trained.training import GOAL, STEPS, Trained, trained, written_by

FEW_STEPS = 200
BY_HEART = 500


@verifies("M5.4")
def it_reads_its_source(impl: JudgedImplementation, architecture: Architecture) -> None:
    """The loss falls below half of what is possible without reading the source.

    Over all sources of one symbol no decoder that ignores its memory has a mean loss below ln 8 / 2. This
    takes a minute; the criteria after it train for an hour and cannot say what is wrong.
    """
    note_case(f"copy one of {SYMBOLS} symbols, d_model=32, 1+1 layers, {FEW_STEPS} steps", "one symbol")
    case = OneSymbolCase(architecture=architecture).fitted(impl)
    batch, trainer = case.batch, JudgedTrainer(impl, case.config, architecture=architecture)
    blind = math.log(SYMBOLS) / 2
    for step in range(1, FEW_STEPS + 1):
        trainer.step(batch)
        if step % 20 == 0:
            loss = finite_number(trainer.evaluate([batch])["loss"], "the evaluated loss")
            if loss < blind / 2:
                return
    expect(False, f"after {FEW_STEPS} steps of copying one symbol the loss is {loss:.3g}; a decoder that "
           f"never reads its source can reach {blind:.3g}, should fall below half of it")  # fmt: skip


@verifies("M5.4", trains=True, costly=True, first=True)
def it_learns_to_reverse(impl: JudgedImplementation, architecture: Architecture) -> None:
    """The validation loss falls below 0.1 within 1000 steps."""
    expect_learned(impl, Task("reverse", architecture))


@verifies("M5.4", only=("standard", "deep"), trains=True, costly=True, first=True)
def it_learns_to_copy(impl: JudgedImplementation, architecture: Architecture) -> None:
    """The validation loss falls below 0.1 within 1000 steps."""
    expect_learned(impl, Task("copy", architecture))


def expect_learned(impl: JudgedImplementation, task: Task) -> None:
    """On the model this run trains once."""
    sizes = "10 symbols, lengths 3 to 8, batch 64, d_model 64, 4 heads, 2+2 layers"
    note_case(f"{task.name}: {sizes}", task.name)
    model = trained(impl, task)
    add_curves_and_samples(impl, task, model)
    lowest = min(loss for _, loss in model.validation)
    expect(
        model.step_below is not None,
        f"the validation loss of {task.name} is {lowest:.3g} at best in {STEPS} steps, "
        f"should be below {GOAL}",
    )


def add_curves_and_samples(impl: JudgedImplementation, task: Task, model: Trained) -> None:
    """Curves and samples for the report."""
    data, name = current().data, task.name
    curves = data.setdefault("curves", {})
    thin = [row for row in model.losses if row[0] % 5 == 0 or row[0] == 1]
    curves[f"{name}: training loss"] = _curve([r[0] for r in thin], [r[1] for r in thin], "loss")
    curves[f"{name}: validation loss"] = _curve(
        [r[0] for r in model.validation], [r[1] for r in model.validation], "loss"
    )
    curves[f"{name}: rate"] = _curve([r[0] for r in thin], [r[2] for r in thin], "rate")
    data.setdefault("training", {})[name] = {
        "step_below": model.step_below,
        "validation_loss": model.validation_loss,
        "exact": model.exact,
        "seconds": model.seconds,
    }
    sequences = task.held_out(5, "test")
    written = written_by(impl, task, model.config, model.parameters, task.batch(sequences))
    data.setdefault("samples", []).extend(
        {
            "input": f"{name} {words(ids)}",
            "output": words(_until_end(row)),
            "wanted": words(task.answer(ids)),
        }
        for ids, row in zip(sequences, written)
    )


def _curve(x: list[int], y: list[float], what: str) -> dict[str, object]:
    return {"x": list(x), "y": [float(f"{v:.5g}") for v in y], "x_label": "step", "y_label": what}


def _until_end(row: Array) -> list[int]:
    ids = [int(i) for i in row]
    return ids[: ids.index(EOS)] if EOS in ids else ids


@verifies("M5.10b", trains=True)
def ten_examples_are_learned_by_heart(impl: JudgedImplementation, architecture: Architecture) -> None:
    """The loss falls below 0.1 within 500 steps on the same ten reversals, without dropout."""
    note_case("ten reversals, the setting of M5.4 without dropout", "by heart")
    task = Task("reverse", architecture)
    batch = task.batch(task.held_out(10, "train"))
    config = TRAINING.but(dropout=0.0, dtype=impl.dtypes[0])
    trainer = JudgedTrainer(impl, config, architecture=architecture)
    first = finite_number(trainer.evaluate([batch])["loss"], "the evaluated loss")
    for step, same in enumerate(islice(cycle([batch]), BY_HEART), 1):
        trainer.step(same)
        if step % 20:
            continue
        loss = finite_number(trainer.evaluate([batch])["loss"], "the evaluated loss")
        if loss < GOAL:
            return
        # Without dropout and on the same batch, a loss that has not moved at all never will.
        expect(loss != first, f"after {step} steps the loss on the same ten examples is still {first:.4g}")
    expect(False, f"after {BY_HEART} steps the loss on ten examples is {loss:.3g}, should be below {GOAL}")
