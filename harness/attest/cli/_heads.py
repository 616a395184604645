"""What `attest study heads` does: patterns of every head of a checkpoint, and the accuracy without it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from attest.boundary import JudgedImplementation
    from attest.contract import Array
    from attest.studies.heads import Head
    from attest.trained.models import SavedModel


def study_heads(judged: JudgedImplementation, model: SavedModel, examples: int, directory: Path) -> None:
    """Measure, print a table and write study_heads.json and .svg."""
    from attest.reference.models.maps import attention_maps, rollout
    from attest.studies.heads import ablated, heads
    from attest.trained.digits import DigitOperations
    from attest.trained.evaluation import answered

    task = DigitOperations()
    questions = task.splits["test"][:examples]
    batch = task.batch(questions)
    source, target = batch["source"], batch["target"][:, :-1]
    maps = attention_maps(model.config, model.parameters, source, target)
    found = heads(maps, source, target)
    config = model.config.but(dtype=judged.dtypes[0])

    def accuracy(parameters: Mapping[str, Array]) -> float:
        return answered(judged, task, config, parameters, questions).accuracy

    whole = accuracy(model.parameters)
    without = ablated(model.config, model.parameters, found, accuracy)
    rolled = rollout(maps.encoder.mean(axis=2)).mean(axis=0)
    click.echo(f"{len(questions)} test questions, {100 * whole:.1f} % right with every head")
    for line in table(found, without):
        click.echo(line)
    rows = [_row(head, share) for head, share in zip(found, without)]
    study = {"study": "heads", "examples": len(questions), "accuracy": whole, "heads": rows}
    study["rollout"] = rolled.round(6).tolist()
    written = write(study, directory)
    click.echo(f"wrote {', '.join(map(str, written))}")
    if len(written) == 1:
        click.echo("no picture: matplotlib is missing; install attest-transformers[report]")


def table(found: list[Head], without: list[float]) -> list[str]:
    """One line per head: its pattern, the score, the share of inputs, the accuracy without it."""
    lines = [f"{'head':16}{'pattern':20}{'score':>7}{'inputs':>9}{'right without it':>18}"]
    for head, accuracy in zip(found, without):
        name = f"{head.kind} {head.layer}.{head.number}"
        inputs = f"{100 * head.shares[head.best]:.0f} %"
        shown = head.pattern if head.pattern != "none" else f"none ({head.best})"
        numbers = f"{head.scores[head.best]:>7.2f}{inputs:>9}"
        lines.append(f"{name:16}{shown:20}{numbers}{100 * accuracy:>16.1f} %")
    return lines


def _row(head: Head, without: float) -> dict[str, Any]:
    return {
        "kind": head.kind,
        "layer": head.layer,
        "head": head.number,
        "pattern": head.pattern,
        "scores": dict(head.scores),
        "shares": dict(head.shares),
        "accuracy_without": without,
    }


def write(study: dict[str, Any], directory: Path) -> list[Path]:
    """study_heads.json, and study_heads.svg where matplotlib is installed."""
    from attest.report.writing import write_text

    data = directory / "study_heads.json"
    write_text(data, json.dumps(study, indent=1, allow_nan=False) + "\n")
    try:
        drawing = draw(study)
    except ImportError:
        return [data]
    write_text(data.with_suffix(".svg"), drawing)
    return [data, data.with_suffix(".svg")]


def draw(study: dict[str, Any]) -> str:
    """Scores by head and pattern, and beside them the accuracy without each head."""
    from attest.report.training_pictures import as_svg, figure

    rows = study["heads"]
    names = sorted({pattern for row in rows for pattern in row["scores"]})
    image, bars = (drawing := figure(8.6, 1.6 + 0.3 * len(rows))).subplots(1, 2, width_ratios=(3, 2))
    labels = [f"{row['kind']} {row['layer']}.{row['head']}" for row in rows]
    scores = [[row["scores"].get(name, float("nan")) for name in names] for row in rows]
    image.imshow(scores, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    image.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    image.set_yticks(range(len(rows)), labels, fontsize=8)
    for r, values in enumerate(scores):
        for c, value in enumerate(values):
            if value == value:
                shade = "white" if value > 0.5 else "black"
                image.text(c, r, f"{value:.2f}", ha="center", va="center", fontsize=7, color=shade)
    image.set_title("weight on the keys of a pattern", fontsize=9)
    bars.barh(range(len(rows)), [100 * row["accuracy_without"] for row in rows], color="tab:blue")
    bars.axvline(100 * study["accuracy"], color="0.4", linestyle=":")
    bars.set(ylim=image.get_ylim(), yticks=[], xlim=(0, 100), xlabel="questions right without the head, %")
    return as_svg(drawing)
