"""`attest train`: train an implementation on one of the tasks, with a line that tells how it goes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from attest.boundary import JudgedImplementation
    from attest.trained.training import Trained


PAIRS = "transformer"  # the model of the tasks that ask a question and want an answer
DEFAULT = "reverse"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--impl", "-i", required=True, metavar="IMPL",
              help="A registered name, file.py[:factory] or package.module:factory.")  # fmt: skip
@click.option("--model", "-m", default=PAIRS, show_default=True, metavar="MODEL",
              help="transformer, gpt, bert or classifier.")  # fmt: skip
@click.option("--task", "-t", metavar="TASK",
              help="transformer: copy, reverse, sort or operations; gpt: entropy or a text file; bert: "
              "masked; classifier: sentiment. [default: reverse, entropy, masked, sentiment]")  # fmt: skip
@click.option("--data", metavar="DIR",
              help="Of a classifier: texts in two classes, DIR/pos/*.txt and DIR/neg/*.txt.")  # fmt: skip
@click.option("--steps", default=1000, show_default=True, type=click.IntRange(1), metavar="N",
              help="Of other tasks than operations, at most; it stops when enough is right.")  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), metavar="N",
              help="Of the task operations, at most. [default: 40]")  # fmt: skip
@click.option("--out", metavar="DIR", help="Where the checkpoint goes. [default: trained/IMPL-TASK]")
@click.pass_context
def command(
    ctx: click.Context,
    impl: str,
    model: str,
    task: str | None,
    data: str | None,
    steps: int,
    epochs: int | None,
    out: str | None,
) -> None:
    """Train a model on a task and keep it in a directory, with the implementation's own checkpoint.

    \b
    transformer  sequences of digits are copied, reversed or sorted, or the
                 operations ("FIRST 3 1 4" is 3) are learned by epochs;
                 exit code 1 above a validation loss of 0.1, or below 95 %
                 of the test questions           use: attest generate
    gpt          a source of known entropy, exit code 1 where the loss does
                 not come within 0.05 of what the source itself loses; or
                 the characters of a text file   use: attest complete
    bert         hidden symbols of a grammar, exit code 1 at 90 % or less
                                                 use: attest fill
    classifier   sentences that praise or blame, exit code 1 at 80 % or
                 less; or your texts (--data), exit code 1 where always to
                 say the commonest class is as good  use: attest classify
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny tensors are slower on several threads
    from attest.cli.flow import judged_implementations
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation
    from attest.trained import digits
    from attest.trained.lessons import KINDS
    from attest.trained.named import TASKS

    if model not in (PAIRS, *KINDS):
        raise click.UsageError(f"model={model!r} is unknown; use one of {', '.join((PAIRS, *KINDS))}")
    if epochs is not None and (model != PAIRS or task != digits.NAME):
        shown = task or KINDS.get(model, (DEFAULT,))[0]
        raise click.UsageError(f"epochs={epochs} is for the task {digits.NAME}; use --steps for {shown}")
    if model != PAIRS:
        if task in TASKS:
            known = " or ".join(KINDS[model])
            raise click.UsageError(f"task={task!r} is for --model {PAIRS}; for {model} use {known}")
        ctx.exit(0 if _train_lesson(impl, model, task, data, steps, out) else 1)
    if data is not None:
        raise click.UsageError(f"data={data!r} does not go with model={model}; add --model classifier")
    task = task or DEFAULT
    if task not in TASKS:
        own = [kind for kind, tasks in KINDS.items() if task in tasks]
        hint = f"is for --model {own[0]}" if own else "is unknown"
        raise click.UsageError(f"task={task!r} {hint}; use one of {', '.join(TASKS)}")
    if task == digits.NAME and ctx.get_parameter_source("steps") is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"steps={steps} is not for the task {digits.NAME}; use --epochs")
    judged = judged_implementations(impl)[0]
    directory = Path(out or f"trained/{judged.name}-{task}")
    check_directory(directory)
    try:
        with collecting():
            if task == digits.NAME:
                ctx.exit(0 if _train_operations(judged, epochs, directory) else 1)
            found = _train(judged, task, steps, directory)
    except NotOffered as reason:
        raise click.UsageError(
            f"{judged.name}: {reason}; only an implementation with a trainer trains"
        ) from None
    except Violation as violation:
        raise click.ClickException(f"{judged.name}: {violation.seen}") from None
    where = f"below 0.1 from step {found.step_below}" if found.step_below else "not below 0.1"
    click.echo(f"{judged.name} {task}: validation loss {found.validation_loss:.4f} ({where}), "
               f"{100 * found.exact:.1f} % exact, {found.seconds:.0f} s")  # fmt: skip
    click.echo(f'{directory} written; next: attest generate --checkpoint {directory} "3 1 4 1 5"')
    ctx.exit(0 if found.step_below else 1)


def _train_lesson(
    impl: str, model: str, task: str | None, data: str | None, steps: int, out: str | None
) -> bool:
    """A model with one stack on one of its tasks."""
    from attest.cli._lessons import train_lesson
    from attest.cli._operations import interruptible
    from attest.cli.flow import judged_implementations
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation
    from attest.trained.lessons import lesson_of

    try:
        lesson = lesson_of(model, task, data)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    judged = judged_implementations(impl)[0]
    directory = Path(out or f"trained/{judged.name}-{lesson.name}")
    check_directory(directory)
    try:
        with collecting(), interruptible():
            return train_lesson(judged, lesson, steps, directory)
    except NotOffered as reason:
        needed = lesson.architecture.trainer
        raise click.UsageError(f"{judged.name}: {reason}; only one with a {needed} trains it") from None
    except Violation as violation:
        raise click.ClickException(f"{judged.name}: {violation.seen}") from None


def check_directory(directory: Path) -> None:
    """UsageError for one that cannot be written, before the training and not after it."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise click.UsageError(f"out={str(directory)!r} is not a directory; choose another")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise click.UsageError(f"out={str(directory)!r} cannot be written; choose another")


def _train_operations(judged: JudgedImplementation, epochs: int | None, directory: Path) -> bool:
    from attest.cli._operations import interruptible, train_operations
    from attest.trained.epochs import EPOCHS

    with interruptible():
        return train_operations(judged, epochs or EPOCHS, directory)


def _train(judged: JudgedImplementation, task: str, steps: int, directory: Path) -> Trained:
    from attest.boundary.training import JudgedTrainer
    from attest.trained.tasks import TRAINING, Task
    from attest.trained.training import saved, train

    trainer = JudgedTrainer(judged, TRAINING.but(dtype=judged.dtypes[0]))
    model = train(judged, Task(task), steps=steps, trainer=trainer, on_step=Progress(task))
    saved(judged.name, Task(task), model).write(directory)
    trainer.save(str(directory))
    return model


class Progress:
    """One line that is written over while it runs; a line every 100 steps where there is no terminal."""

    def __init__(self, task: str) -> None:
        from attest.trained.tasks import BATCH, LONGEST, SHORTEST

        self.task, self.live = task, sys.stderr.isatty()
        self.tokens = BATCH * ((SHORTEST + LONGEST) / 2 + 1)  # to predict in a batch, on average
        self.started, self.validation = time.perf_counter(), float("nan")

    def __call__(self, step: int, report: dict[str, float], validation: float | None) -> None:
        """After every step."""
        if validation is not None:
            self.validation = validation
        if self.live or step % 100 == 0:
            line = self.line(step, report)
            sys.stderr.write(f"{line:<96}\r" if self.live else f"{line}\n")
            sys.stderr.flush()

    def line(self, step: int, report: dict[str, float]) -> str:
        """Step, loss, rate and speed."""
        speed = step * self.tokens / max(time.perf_counter() - self.started, 1e-9)
        return (f"{self.task}  step {step:4d}  loss {report['loss']:.3f}  validation {self.validation:.3f}  "
                f"rate {report['rate']:.2e}  {speed:,.0f} tokens/s")  # fmt: skip
