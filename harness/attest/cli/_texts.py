"""Training a language model from the command line."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.boundary.training import JudgedTrainer, finite_number
from attest.contract import DECODER_ONLY
from attest.trained.models import SavedModel
from attest.trained.texts import Digits, Text

if TYPE_CHECKING:
    from attest.boundary import JudgedImplementation

LOOK_EVERY = 50
NEAR = 0.05


def train_text(judged: JudgedImplementation, text: Text, steps: int, directory: Path) -> bool:
    """Train, keep the model, and say how it went; False where a known entropy was not reached."""
    config = judged.claims.nearest(DECODER_ONLY.operation, text.config.but(dtype=judged.dtypes[0]))
    trainer = JudgedTrainer(judged, config, architecture=DECODER_ONLY)
    validation, looks = [text.validation()], []
    for step, batch in zip(range(1, steps + 1), text.batches(config.seed)):
        report = trainer.step(batch)
        if step % LOOK_EVERY == 0 or step == steps:
            loss = finite_number(trainer.evaluate(validation)["loss"], f"the validation loss at step {step}")
            looks.append((step, loss))
            told = f"{text.name}  step {step:4d}  loss {report['loss']:.3f}  validation {loss:.3f}"
            click.echo(f"{told}  perplexity {math.exp(min(loss, 50)):.2f}", file=sys.stderr)
            if reached(text, loss):
                break
    history = {"validation": looks, "alphabet": getattr(text, "alphabet", "")}
    SavedModel(
        implementation=judged.name,
        task=text.name,
        config=config,
        parameters=dict(trainer.parameters()),
        architecture=DECODER_ONLY,
        history=history,
    ).write(directory)
    trainer.save(str(directory))
    return say(judged.name, text, looks[-1][1], directory)


def reached(text: Text, loss: float) -> bool:
    """Whether the loss is as low as it can be, where that is known."""
    return isinstance(text, Digits) and loss <= text.ideal + NEAR / 5


def say(name: str, text: Text, loss: float, directory: Path) -> bool:
    """The last lines, and whether the goal was met; the characters of a file have none."""
    known = isinstance(text, Digits)
    beside = f", the source itself {text.ideal:.4f}" if isinstance(text, Digits) else ""
    click.echo(f"{name} {text.name}: loss {loss:.4f}{beside}, perplexity {math.exp(min(loss, 50)):.2f}")
    prompt = "3 1 4" if known else text.words(range(3, 6))
    click.echo(f"{directory} written; next: attest complete --checkpoint {directory} {prompt!r}")
    return not isinstance(text, Digits) or loss <= text.ideal + NEAR
