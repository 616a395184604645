"""What `attest train --task operations` does: epochs with a bar, the best model kept, and how good it is."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from attest.boundary import JudgedImplementation
    from attest.trained.epochs import Training

GOAL = 0.95  # of the test questions
SHOWN = 8  # mistakes on the screen; the file has more


def train_operations(judged: JudgedImplementation, epochs: int, directory: Path) -> bool:
    """Train, keep the best epoch in the directory, print how good it is; whether the goal is reached."""
    from attest.boundary.training import JudgedTrainer
    from attest.trained.digits import TRAINING, DigitOperations
    from attest.trained.epochs import train_by_epochs

    task = DigitOperations()
    trainer = JudgedTrainer(judged, TRAINING.but(dtype=judged.dtypes[0]))
    started = time.perf_counter()
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".training-") as kept:
        with Bar(len(task.splits["train"]), epochs) as bar:

            def on_epoch(training: Training, improved: bool) -> None:
                if improved:
                    trainer.save(kept)
                bar.epoch(training, improved)

            training = train_by_epochs(
                judged, task, trainer, epochs=epochs, on_step=bar.step, on_epoch=on_epoch
            )
        seconds = time.perf_counter() - started
        found = _evaluated(judged, training, trainer.config, seconds)
        _write(directory, Path(kept), judged.name, training, trainer.config, found)
    _print(judged.name, found, directory)
    return bool(found["test_accuracy"] >= GOAL)


def _evaluated(
    judged: JudgedImplementation, training: Training, config: Any, seconds: float
) -> dict[str, Any]:
    """Everything about the kept epoch, on the test split."""
    from attest.trained.digits import DigitOperations
    from attest.trained.evaluation import answered, by_operation, confusion, mistakes

    task = DigitOperations()
    seen = answered(judged, task, config, training.parameters, task.splits["test"])
    return {
        "epochs": len(training.losses),
        "best_epoch": training.best,
        "seconds": round(seconds, 1),
        "losses": training.losses,
        "validation": training.accuracies,
        "test_accuracy": seen.accuracy,
        "operations": by_operation(seen, task.splits["train"]),
        "confusion": confusion(seen).tolist(),
        "mistakes": mistakes(seen),
    }


def _write(
    directory: Path, own: Path, name: str, training: Training, config: Any, found: dict[str, Any]
) -> None:
    """The implementation's own checkpoint, then the model in the common format, then its evaluation."""
    from attest.trained.digits import NAME
    from attest.trained.models import SavedModel

    directory.mkdir(parents=True, exist_ok=True)
    for path in own.iterdir():
        target = directory / path.name
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        shutil.move(path, target)
    history = {key: found[key] for key in ("losses", "validation", "best_epoch", "test_accuracy", "seconds")}
    model = SavedModel(
        implementation=name, task=NAME, config=config, parameters=training.parameters, history=history
    )
    model.write(directory)
    (directory / "evaluation.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    try:
        from attest.report.training_pictures import confusion_matrix, curves

        drawn = {
            "curves.svg": curves(training.losses, training.accuracies, training.best),
            "confusion.svg": confusion_matrix(found["confusion"], f"{name}: test questions by digit"),
        }
    except ImportError:
        click.echo("no pictures: matplotlib is missing; install attest-transformers[report]", err=True)
        return
    for file, text in drawn.items():
        (directory / file).write_text(text, encoding="utf-8")


def _print(name: str, found: dict[str, Any], directory: Path) -> None:
    accuracy, rows = found["test_accuracy"], found["operations"]
    kept = f"epoch {found['best_epoch']} of {found['epochs']} kept, {found['seconds']:.0f} s"
    click.echo(f"{name} operations: {100 * accuracy:.1f} % of {_count(rows)} test questions exact, {kept}")
    click.echo(f"\n{'operation':10}{'questions':>10}{'right':>9}{'always the commonest':>23}")
    for operation, row in rows.items():
        guess = f"{100 * row['baseline']:.1f} % ({row['baseline_answer']})"
        click.echo(f"{operation:10}{row['questions']:>10}{100 * row['accuracy']:>7.1f} %{guess:>23}")
    click.echo("\n" + "\n".join(confusion_lines(found["confusion"])))
    for wrong in found["mistakes"][:SHOWN]:
        click.echo(f"wrong: {wrong['question']:14} -> {wrong['written']}, should be {wrong['wanted']}")
    more = len(found["mistakes"]) - SHOWN
    if more > 0:
        click.echo(f"{more} more in {directory / 'evaluation.json'}")
    click.echo(f'\n{directory} written; next: attest generate --checkpoint {directory} "FIRST 3 1 4"')


def _count(rows: dict[str, dict[str, Any]]) -> int:
    return sum(int(row["questions"]) for row in rows.values())


def confusion_lines(counts: list[list[int]]) -> Iterator[str]:
    """Wanted digit by row, written digit by column; a dot where nothing is."""
    yield "wanted\\written" + "".join(f"{c:>6}" for c in [*range(len(counts[0]) - 1), "other"])
    for digit, row in enumerate(counts):
        yield f"{digit:>14}" + "".join(f"{count or '.':>6}" for count in row)


class Bar:
    """A bar for the epoch that runs and a line for each that is done; without a terminal the lines alone."""

    def __init__(self, examples: int, epochs: int) -> None:
        from attest.trained.digits import BATCH

        self.steps, self.epochs, self.live = -(-examples // BATCH), epochs, sys.stderr.isatty()
        self.progress: Any = None
        self.task: Any = None

    def __enter__(self) -> Bar:
        if self.live:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self.progress = Progress(*columns, console=Console(stderr=True))
            self.progress.start()
            self.task = self.progress.add_task("epoch 1", total=self.steps)
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()

    def step(self, epoch: int, report: dict[str, float]) -> None:
        """After every batch."""
        if self.progress is not None:
            said = f"epoch {epoch}/{self.epochs}  loss {report['loss']:.3f}"
            self.progress.update(self.task, advance=1, description=said)

    def epoch(self, training: Training, improved: bool) -> None:
        """After every epoch."""
        number, loss, share = len(training.losses), training.losses[-1], training.accuracies[-1]
        line = f"epoch {number:3d}  loss {loss:.4f}  validation {100 * share:5.1f} % right"
        line += "  kept" if improved else ""
        if self.progress is None:
            click.echo(line, err=True)
        else:
            self.progress.console.print(line, highlight=False)
            self.progress.reset(self.task)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C or SIGTERM while training: one sentence, and nothing is left behind."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise click.ClickException("stopped before the end; nothing was written") from None
    finally:
        signal.signal(signal.SIGTERM, before)
