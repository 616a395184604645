"""M5: it learns. Everything before this says where a fault is; this says only whether there is one."""

from __future__ import annotations

import math
from itertools import cycle, islice

import numpy as np

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer, finite_number
from attest.checks.arrays import expect
from attest.contract import Array, Config
from attest.judging.evidence import current, note_case
from attest.judging.property import verifies
from attest.trained.tasks import BOS, EOS, PAD, TRAINING, Task, words
from attest.trained.training import GOAL, STEPS, Trained, trained, written_by

FEW_STEPS = 200
BY_HEART = 500
SYMBOLS = 8
TINY = Config(
    d_model=32,
    num_heads=2,
    d_ff=64,
    num_encoder_layers=1,
    num_decoder_layers=1,
    source_vocab=SYMBOLS + 3,
    target_vocab=SYMBOLS + 3,
    max_len=128,
    dropout=0.0,
    warmup=40,
)


def one_symbol_copies(length: int) -> dict[str, Array]:
    """Every source of one symbol, to be copied: whoever does not read it loses ln 8 on the first token."""
    symbols = np.arange(3, SYMBOLS + 3)[:, None]
    column = np.ones((SYMBOLS, 1), np.int64)
    return {
        "source": np.concatenate([symbols, *[PAD * column] * (length - 1)], 1),
        "target": np.concatenate([BOS * column, symbols, EOS * column, PAD * column], 1),
    }


@verifies("M5.4")
def it_reads_its_source(impl: JudgedImplementation) -> None:
    """A minute's work before the hour's: below half of what is possible without looking at the source.

    Over all sources of one symbol no decoder that ignores its memory has a mean loss below ln 8 / 2.
    """
    note_case(f"copy one of {SYMBOLS} symbols, d_model=32, 1+1 layers, {FEW_STEPS} steps", "one symbol")
    batch = one_symbol_copies(length=impl.policy.min_size)
    dtype = impl.sharpest if impl.policy.one_config else impl.dtypes[0]
    trainer = JudgedTrainer(impl, TINY.but(dtype=dtype))
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
def it_learns_to_reverse(impl: JudgedImplementation) -> None:
    """Validation loss below 0.1 within 1000 steps."""
    expect_learned(impl, "reverse")


@verifies("M5.4", only=("standard", "deep"), trains=True, costly=True, first=True)
def it_learns_to_copy(impl: JudgedImplementation) -> None:
    """Validation loss below 0.1 within 1000 steps."""
    expect_learned(impl, "copy")


def expect_learned(impl: JudgedImplementation, task: str) -> None:
    """On the model this run trains once."""
    note_case(f"{task}: 10 symbols, lengths 3 to 8, batch 64, d_model 64, 4 heads, 2+2 layers", task)
    model = trained(impl, task)
    show(impl, task, model)
    lowest = min(loss for _, loss in model.validation)
    expect(
        model.step_below is not None,
        f"the validation loss of {task} is {lowest:.3g} at best in {STEPS} steps, should be below {GOAL}",
    )


def show(impl: JudgedImplementation, task: str, model: Trained) -> None:
    """Curves and samples for the report."""
    data = current().data
    curves = data.setdefault("curves", {})
    thin = [row for row in model.losses if row[0] % 5 == 0 or row[0] == 1]
    curves[f"{task}: training loss"] = _curve([r[0] for r in thin], [r[1] for r in thin], "loss")
    curves[f"{task}: validation loss"] = _curve(
        [r[0] for r in model.validation], [r[1] for r in model.validation], "loss"
    )
    curves[f"{task}: rate"] = _curve([r[0] for r in thin], [r[2] for r in thin], "rate")
    data.setdefault("training", {})[task] = {
        "step_below": model.step_below,
        "validation_loss": model.validation_loss,
        "exact": model.exact,
        "seconds": model.seconds,
    }
    sequences = Task(task).held_out(5, "test")
    written = written_by(impl, model.config, model.parameters, Task(task).batch(sequences))
    data.setdefault("samples", []).extend(
        {
            "input": f"{task} {words(ids)}",
            "output": words(_until_end(row)),
            "wanted": words(Task(task).answer(ids)),
        }
        for ids, row in zip(sequences, written)
    )


def _curve(x: list[int], y: list[float], what: str) -> dict[str, object]:
    return {"x": list(x), "y": [float(f"{v:.5g}") for v in y], "x_label": "step", "y_label": what}


def _until_end(row: Array) -> list[int]:
    ids = [int(i) for i in row]
    return ids[: ids.index(EOS)] if EOS in ids else ids


@verifies("M5.10b", trains=True)
def ten_examples_are_learned_by_heart(impl: JudgedImplementation) -> None:
    """Loss below 0.1 within 500 steps on the same ten reversals, without dropout."""
    note_case("ten reversals, the setting of M5.4 without dropout", "by heart")
    batch = Task("reverse").batch(Task("reverse").held_out(10, "train"))
    trainer = JudgedTrainer(impl, TRAINING.but(dropout=0.0, dtype=impl.dtypes[0]))
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
