"""What `attest study heads` does: patterns of every head of a checkpoint, and the accuracy without it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from attest.boundary import JudgedImplementation
    from attest.contract import Array
    from attest.report.attention_pictures import Panel
    from attest.studies.heads import Head
    from attest.trained.models import SavedModel

SHOWN = "FIRST 3 1 4"  # the question whose maps are drawn


def study_heads(judged: JudgedImplementation, model: SavedModel, examples: int, directory: Path) -> None:
    """Measure, print a table, and write the study with its pictures."""
    from attest.cli.attention import panels
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
    shown = panels(model, task.batch([task.question(SHOWN)])["source"], None, None)
    written = write(study | pictured(study, shown), shown, directory)
    click.echo(f"wrote {', '.join(map(str, written))}")
    if len(written) == 1:
        click.echo("no picture: matplotlib is missing; install attest-transformers[report]")


def table(found: list[Head], without: list[float]) -> list[str]:
    """One line per head: its pattern, the score, the share of inputs, the accuracy without it."""
    lines = [f"{'head':16}{'pattern':26}{'score':>7}{'inputs':>9}{'right without it':>18}"]
    for head, accuracy in zip(found, without):
        name = f"{head.kind} {head.layer}.{head.number}"
        inputs = f"{100 * head.shares[head.best]:.0f} %"
        shown = head.pattern if head.pattern != "none" else f"none ({head.best})"
        numbers = f"{head.scores[head.best]:>7.2f}{inputs:>9}"
        lines.append(f"{name:16}{shown:26}{numbers}{100 * accuracy:>16.1f} %")
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


def pictured(study: dict[str, Any], shown: Sequence[Panel]) -> dict[str, Any]:
    """What reports draw beside M10.14: scores by head and pattern, rollout, the mean maps of a question."""
    rows = study["heads"]
    names = sorted({pattern for row in rows for pattern in row["scores"]})
    scores = {
        "title": f"weight on the keys of a pattern, {study['examples']} test questions",
        "values": [[row["scores"].get(name) for name in names] for row in rows],
        "row_labels": [f"{row['kind']} {row['layer']}.{row['head']}" for row in rows],
        "column_labels": names,
    }
    rolled = {
        "title": "attention rollout of the encoder: output position by input position, mean of all questions",
        "values": study["rollout"],
    }
    maps = [
        {
            "title": f"{SHOWN}: {panel.title}, mean of the heads, query by key",
            "values": panel.weights.mean(axis=0).round(6).tolist(),
            "row_labels": list(panel.queries),
            "column_labels": list(panel.keys),
        }
        for panel in shown
    ]
    files = ["study_heads.svg", "study_heads_maps.svg"]
    return {"criterion": "M10.14", "heatmaps": [scores, rolled, *maps], "pictures": files}


def write(study: dict[str, Any], shown: Sequence[Panel], directory: Path) -> list[Path]:
    """study_heads.json, and where matplotlib is installed pictures of the scores and of one question."""
    from attest.report.attention_pictures import draw as draw_maps
    from attest.report.writing import write_text

    data, maps = directory / "study_heads.json", directory / "study_heads_maps.svg"
    write_text(data, json.dumps(study, indent=1, allow_nan=False) + "\n")
    try:
        drawing = draw(study)
    except ImportError:
        return [data]
    write_text(data.with_suffix(".svg"), drawing)
    draw_maps(shown, maps)
    return [data, data.with_suffix(".svg"), maps]


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
