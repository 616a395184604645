"""Training a language model, a masked one or a classifier from the command line."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attest.boundary.training import JudgedTrainer, finite_number
from attest.trained.lessons import Lesson, Measured
from attest.trained.models import SavedModel

if TYPE_CHECKING:
    from attest.boundary import JudgedImplementation

LOOK_EVERY = 25
PAGE = "training.html"
Looks = list[tuple[int, Measured]]


def train_lesson(judged: JudgedImplementation, lesson: Lesson, steps: int, directory: Path) -> bool:
    """Train, keep the model and a page of how it went, and say it; False where the goal was not reached."""
    config = lesson.config.but(dtype=judged.dtypes[0])
    config = judged.claims.nearest(lesson.architecture.operation, config)
    trainer = JudgedTrainer(judged, config, architecture=lesson.architecture)
    losses: list[tuple[int, float]] = []
    looks: Looks = []
    started = time.perf_counter()
    for step, batch in zip(range(1, steps + 1), lesson.batches(config.seed)):
        report = trainer.step(batch)
        losses.append((step, finite_number(report["loss"], f"the loss of step {step}")))
        if step % LOOK_EVERY == 0 or step == steps:
            looks.append((step, lesson.measured(trainer)))
            _progress(lesson, *losses[-1], looks[-1][1])
            if lesson.enough(looks[-1][1]):
                break
    _write(judged, lesson, trainer, looks, directory)
    measured, seconds = looks[-1][1], time.perf_counter() - started
    told = summary(lesson, measured)
    click.echo(f"{judged.name} {lesson.name}: {told}, {looks[-1][0]} steps, {seconds:.0f} s")
    _page(judged.name, lesson, told, losses, looks, trainer, directory)
    click.echo(f"{directory} written; next: {lesson.next_command(directory)}")
    return lesson.met(measured)


def _progress(lesson: Lesson, step: int, loss: float, measured: Measured) -> None:
    click.echo(f"{lesson.name}  step {step:4d}  loss {loss:.3f}  {measured}", file=sys.stderr)


def summary(lesson: Lesson, measured: Measured) -> str:
    """Loss, perplexity and share, beside what they are compared with."""
    if measured.right is None:
        beside = f" ({lesson.beside})" if lesson.beside else ""
        return f"loss {measured.loss:.4f}{beside}, perplexity {measured.perplexity:.2f}"
    return f"{measured.right:.1%} right ({lesson.beside}), loss {measured.loss:.4f}"


def _write(
    judged: JudgedImplementation, lesson: Lesson, trainer: JudgedTrainer, looks: Looks, directory: Path
) -> None:
    """The model in the common format, and the implementation's own checkpoint beside it."""
    history: dict[str, Any] = {"validation": [(step, seen.loss) for step, seen in looks], **lesson.kept}
    if looks[-1][1].right is not None:
        history["right"] = [(step, seen.right) for step, seen in looks]
    SavedModel(
        implementation=judged.name,
        task=lesson.name,
        config=trainer.config,
        parameters=dict(trainer.parameters()),
        architecture=lesson.architecture,
        history=history,
    ).write(directory)
    trainer.save(str(directory))


def _page(
    name: str,
    lesson: Lesson,
    told: str,
    losses: list[tuple[int, float]],
    looks: Looks,
    trainer: JudgedTrainer,
    directory: Path,
) -> None:
    """Curves and samples for a browser."""
    try:
        from attest.report.training_page import training_page
    except ImportError:
        click.echo("no page: jinja2 is missing; install attest-transformers[report]", err=True)
        return
    title = f"{name} on {lesson.name}"
    data = {"curves": curves(lesson, losses, looks), "samples": lesson.samples(trainer)}
    text = training_page(title, [f"After {looks[-1][0]} steps: {told}."], data)
    (directory / PAGE).write_text(text, encoding="utf-8")
    click.echo(f"curves and samples: {directory / PAGE}")


def curves(lesson: Lesson, losses: list[tuple[int, float]], looks: Looks) -> dict[str, dict[str, Any]]:
    """The loss of the batches and of what is held out, its perplexity, and the share that is right."""
    steps = [step for step, _ in looks]
    thin = losses[:: max(1, len(losses) // 200)]
    found = {
        "training": _curve([s for s, _ in thin], [loss for _, loss in thin], "loss"),
        "held out": _curve(steps, [seen.loss for _, seen in looks], "loss"),
    }
    shares = [seen.right for _, seen in looks if seen.right is not None]
    if shares:
        found["right"] = _curve(steps, shares, "share that is right")
    else:
        found["perplexity"] = _curve(steps, [seen.perplexity for _, seen in looks], "perplexity")
    if lesson.level is not None:
        name, level = lesson.level
        found[name] = _curve(steps, [level] * len(steps), "share that is right" if shares else "perplexity")
    return found


def _curve(x: list[int], y: list[float], what: str) -> dict[str, Any]:
    return {"x": x, "y": [float(f"{value:.5g}") for value in y], "x_label": "step", "y_label": what}
