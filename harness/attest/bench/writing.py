"""bench.json, bench.md and bench.svg."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attest.bench.agreement import FIRST
from attest.bench.entrants import EVERY
from attest.bench.goals import GOALS, RATIOS, judged, reported
from attest.bench.measuring import CALM, Outcome, Timing
from attest.bench.shapes import BASE, AnyShape, Shape
from attest.machine import processor
from attest.report.environment import environment
from attest.report.writing import as_json, write_text

BASELINES = ("eager", "Marian", "CTranslate2", "llama.cpp")


def document(
    shape: Shape,
    outcomes: Sequence[Outcome],
    ceilings: Mapping[str, float],
    about: Mapping[str, Any],
    load: tuple[float, float],
) -> dict[str, Any]:
    """Everything measured, as it is written to bench.json."""
    return {
        "shapes": [_shape(one) for one in {work.shape: None for work in (o.work for o in outcomes)}],
        "environment": {**environment(), "processor": processor()},
        **about,
        "ceilings": dict(ceilings),
        "load": [round(value, 2) for value in load],
        "workloads": [_entry(outcome) for outcome in outcomes],
        "ratios": reported(outcomes, RATIOS if shape == BASE else ()),
        "goals": judged(outcomes, GOALS if shape == BASE else (), ceilings["bandwidth_gbs"]),
    }


def _shape(shape: AnyShape) -> dict[str, Any]:
    sizes = {name: value for name, value in vars(shape).items() if name != "config"}
    return {**sizes, "says": shape.says, "bytes_per_token": shape.bytes_per_token}


def _entry(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.work.name,
        "about": outcome.work.about,
        "shape": outcome.work.shape.name,
        "units": outcome.work.units,
        "disturbed": outcome.disturbed,
        "entrants": [_row(outcome, timing) for timing in outcome.timings],
        "absent": outcome.absent,
    }


def _row(outcome: Outcome, timing: Timing) -> dict[str, Any]:
    ratios = {name: outcome.ratio(timing.entrant, name) for name in BASELINES}
    return {
        "name": timing.entrant,
        "peer": timing.peer,
        "seconds": [round(s, 6) for s in timing.seconds],
        "best": round(timing.best, 6),
        "spread": round(timing.spread, 3),
        "tokens_per_second": round(outcome.work.units / timing.best, 1),
        "profile": [[name, round(share, 3)] for name, share in timing.profile],
        "times_as_fast_as": {
            name: [round(r, 3) for r in found] for name, found in ratios.items() if found is not None
        },
    }


def markdown(found: Mapping[str, Any]) -> str:
    """The document as a Markdown page."""
    ceilings = found["ceilings"]
    lines = [
        "# Benchmark",
        "",
        *(f"- Shape {shape['name']}: {shape['says']}; float32." for shape in found["shapes"]),
        "",
        f"{found['threads']} threads, interleaved, {found['clock']} time, best of {found['rounds']}. The "
        f"loop that re-runs everything is timed at every {EVERY}th length and multiplied. Ratios: best over "
        f"best, and the least and most of a round. Of a completion the first {FIRST} tokens of each row were "
        "checked against the float64 reference before anything was timed. A workload in which somebody's "
        f"spread is above {CALM:.0%} is timed twice, and marked where it stays so.",
        "",
        f"Ceilings of this machine while it ran: {ceilings['matmul_gflops']} GFLOP/s (float32 product), "
        f"{ceilings['bandwidth_gbs']} GB/s (reading memory). Processes waiting (load average) before and "
        f"after: {found['load'][0]:.1f} and {found['load'][1]:.1f}. {found['environment']['processor']}.",
    ]
    lines += [f"\n{sentence}." for sentence in found["missing"]]
    for entry in found["workloads"]:
        lines += ["", f"## {entry['name']}", "", _about(entry), "", *_table(entry)]
        lines += ["", *_profiles(entry)]
    if found["ratios"]:
        lines += ["", "## Ratios", "", *_ratios(found["ratios"])]
    if found["goals"]:
        lines += ["", "## Goals", "", *_goals(found["goals"])]
    return "\n".join(lines) + "\n"


def _about(entry: Mapping[str, Any]) -> str:
    marked = " **Disturbed in both tries.**" if entry["disturbed"] else ""
    return f"{entry['about'].capitalize()}; shape {entry['shape']}.{marked}"


def _table(entry: Mapping[str, Any]) -> list[str]:
    used = [b for b in BASELINES if any(b in row["times_as_fast_as"] for row in entry["entrants"])]
    heads = ["", "best s", "spread", "tokens/s", *(f"x {name}" for name in used)]
    lines = [f"| {' | '.join(heads)} |", f"|---{'|---:' * (len(heads) - 1)}|"]
    for row in entry["entrants"]:
        cells = [row["name"], f"{row['best']:.3f}", f"{row['spread']:.0%}", f"{row['tokens_per_second']:.0f}"]
        cells += [_ratio(row["times_as_fast_as"].get(name)) for name in used]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _profiles(entry: Mapping[str, Any]) -> list[str]:
    """One line for each that was profiled, and one for each that took no part."""
    lines = [
        f"- {row['name']} spends {', '.join(f'{share:.0%} in `{name}`' for name, share in row['profile'])}"
        for row in entry["entrants"]
        if row["profile"]
    ]
    return lines + [f"- {name} takes no part: {reason}" for name, reason in entry["absent"].items()]


def _ratio(found: Sequence[float] | None) -> str:
    if found is None:
        return ""
    ratio, least, most = found
    return f"{ratio:.2f} ({least:.2f} to {most:.2f})"


def _ratios(ratios: Sequence[Mapping[str, Any]]) -> list[str]:
    """No judgement: `eager` is written to be read."""
    lines = ["| ratio | seen |", "|---|---:|"]
    return lines + [f"| {ratio['sentence']} | {_number(ratio['seen'])} |" for ratio in ratios]


def _number(seen: float | None) -> str:
    return "not measured" if seen is None else f"{seen:.2f}"


def _goals(goals: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| goal | wanted | seen | |", "|---|---:|---:|---|"]
    for goal in goals:
        verdict = {True: "reached", False: "**not reached**", None: ""}[goal["reached"]]
        lines.append(f"| {goal['sentence']} | {goal['wanted']:.1f} | {_number(goal['seen'])} | {verdict} |")
    return lines


def plot(found: Mapping[str, Any]) -> str | None:
    """Tokens per second of every entrant, one panel per workload, as SVG; None without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return None
    from matplotlib.figure import Figure

    entries = found["workloads"]
    with matplotlib.rc_context({"svg.hashsalt": "attest", "svg.fonttype": "none"}):
        rows = (len(entries) + 1) // 2
        figure = Figure(figsize=(9, 0.6 + 2.1 * rows), layout="constrained")
        panels = figure.subplots(rows, 2, squeeze=False).flatten()
        for panel, entry in zip(panels, entries):
            _panel(panel, entry)
        for panel in panels[len(entries) :]:
            panel.set_axis_off()
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def _panel(panel: Any, entry: Mapping[str, Any]) -> None:
    rows = entry["entrants"][::-1]
    names, rates = [row["name"] for row in rows], [row["tokens_per_second"] for row in rows]
    bars = panel.barh(names, rates, color=["tab:gray" if row["peer"] else "tab:blue" for row in rows])
    panel.bar_label(bars, fmt="%.0f", padding=2, fontsize="small")
    panel.set_title(entry["name"], fontsize="medium")
    panel.set_xlabel("tokens/s", fontsize="small")
    panel.margins(x=0.15)


def write(found: Mapping[str, Any], directory: Path) -> list[Path]:
    """The files of a benchmark; the plot only where it can be drawn."""
    files = {"bench.json": as_json(found), "bench.md": markdown(found), "bench.svg": plot(found)}
    written = []
    for name, text in files.items():
        if text is not None:
            write_text(directory / name, text)
            written.append(directory / name)
    return written
