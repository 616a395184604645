"""Seconds and memory of attention over the length of what it reads, one process for each point.

Full attention keeps T x T scores for every head; grouped heads save keys and values; a window and attention
in blocks of keys can save scores. Whether an implementation does so is what the curve shows.
It judges nothing.

Shapes: B rows, H heads, T length, D width, d head width.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation, quiet
from attest.contract import Array, Config
from attest.outcomes import NotOffered
from attest.reference.oracle import random_parameters
from attest.registry import load, parse_request

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
PLAIN = Config(d_model=64, num_heads=4, dropout=0.0, dtype="float32")
GROUPED, WINDOW, CHUNK = 1, 64, 64
# What is measured under each name: an operation, and the config in which it differs from the plain one.
KINDS: Mapping[str, tuple[str, Config]] = {
    "full": ("self_attention", PLAIN),
    "grouped": ("self_attention", PLAIN.but(num_kv_heads=GROUPED)),
    "windowed": ("self_attention", PLAIN.but(window=WINDOW)),
    "chunked": ("chunked_attention", PLAIN.but(chunk=CHUNK)),
}
CALLS = 3  # the fastest of so many is kept
LONGEST = 300  # seconds for one point
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
CRITERION = "M8.9"  # the study shows over lengths what this one asks at one
Study = dict[str, Any]


def lengths_study(
    request: str, *, lengths: Sequence[int] = LENGTHS, progress: Callable[[str], None] = lambda line: None
) -> Study:
    """Every kind that is offered and claimed at every length; `request` is what --impl takes."""
    impl = judged(request)
    kinds = [kind for kind in KINDS if _offered(impl, kind)]
    if not kinds:
        raise NotOffered("neither self_attention nor chunked_attention is offered; the study measures them")
    rows = []
    for kind in kinds:
        for length in lengths:
            found = _in_a_process(request, kind, length)
            rows.append({"kind": kind, "length": length, **found})
            progress(f"{kind}, {length}: {found['seconds']:.4f} s, {found['megabytes']:.1f} MB")
    return {
        "format": 1,
        "study": "lengths",
        "criterion": CRITERION,
        "implementation": impl.name,
        "task": f"one row, d_model {PLAIN.d_model}, {PLAIN.num_heads} heads, causal, float32, one thread; "
        f"grouped: {GROUPED} key head, window {WINDOW}, chunks of {CHUNK}",
        "rows": rows,
        "curves": _curves(rows),
    }


def judged(request: str) -> JudgedImplementation:
    """The first implementation that a request names."""
    parsed = parse_request(request)
    return JudgedImplementation(load(parsed)[0], device=dict(parsed.options).get("device", "cpu"))


def _offered(impl: JudgedImplementation, kind: str) -> bool:
    operation, config = KINDS[kind]
    return impl.offers(operation) and not impl.claims.outside(operation, config)


def _in_a_process(request: str, kind: str, length: int) -> dict[str, float]:
    """A new process: what an earlier length left in memory would hide what this one needs."""
    code = f"from attest.studies.lengths import answer; answer({request!r}, {kind!r}, {length})"
    alone = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    started = [sys.executable, "-c", code]
    done = subprocess.run(started, capture_output=True, text=True, timeout=LONGEST, env=alone)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotOffered(f"{kind} at {length} failed: {last}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def answer(request: str, kind: str, length: int) -> None:
    """Print the seconds and megabytes of one point, in the process that was started for it."""
    operation, config = KINDS[kind]
    impl = judged(request)
    component = impl.construct(operation, impl.with_run_options(config))
    rng = np.random.default_rng(0)
    weights = random_parameters(operation, config, rng)
    with quiet():
        if weights:
            component.load({name: value.astype(np.float32) for name, value in weights.items()})
        inputs = _inputs(operation, length, rng)
        short = _inputs(operation, LENGTHS[0], rng)
        component(**short, causal=True)  # what the first call alone needs is not the length's
        before = _resident(peak=False)
        seconds = min(_timed(component, inputs) for _ in range(CALLS))
        grown = max(0.0, _resident(peak=True) - before)
    print(json.dumps({"seconds": round(seconds, 6), "megabytes": round(grown, 2)}))


def _inputs(operation: str, length: int, rng: np.random.Generator) -> dict[str, Array]:
    if operation == "self_attention":
        return {"x": rng.standard_normal((1, length, PLAIN.d_model)).astype(np.float32)}
    heads = (1, PLAIN.num_heads, length, PLAIN.d_head)
    return {name: rng.standard_normal(heads).astype(np.float32) for name in ("q", "k", "v")}


def _timed(component: Any, inputs: Mapping[str, Array]) -> float:
    started = time.perf_counter()
    component(**inputs, causal=True)
    return time.perf_counter() - started


def _resident(*, peak: bool) -> float:
    """Megabytes of memory that the process has, or has had at most since it was last asked for what it has.

    Linux can forget its high-water mark; elsewhere both are the mark, so that only growth beyond it is seen.
    """
    try:
        if not peak:
            Path("/proc/self/clear_refs").write_text("5")
        said = Path("/proc/self/status").read_text()
        wanted = "VmHWM:" if peak else "VmRSS:"
        line = next(line for line in said.splitlines() if line.startswith(wanted))
        return int(line.split()[1]) / 1024
    except (OSError, StopIteration):
        import resource

        mark = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return mark / 2**20 if sys.platform == "darwin" else mark / 2**10


def _curves(rows: Sequence[Study]) -> dict[str, Study]:
    """One chart of seconds and one of megabytes for each kind."""
    units = {"seconds": "seconds a call", "megabytes": "megabytes at most"}
    return {
        f"{kind}, {unit}": {
            "x": [row["length"] for row in rows if row["kind"] == kind],
            "y": [row[unit] for row in rows if row["kind"] == kind],
            "x_label": "length",
            "y_label": label,
        }
        for unit, label in units.items()
        for kind in dict.fromkeys(str(row["kind"]) for row in rows)
    }


def table(study: Study) -> list[str]:
    """A line for each kind and length."""
    lines = [f"{'':10}{'length':>8}{'seconds':>12}{'MB':>10}"]
    for row in study["rows"]:
        lines.append(f"{row['kind']:10}{row['length']:>8}{row['seconds']:>12.5f}{row['megabytes']:>10.1f}")
    return lines


def draw_lengths(study: Study) -> str | None:
    """An SVG of both curves on doubly logarithmic axes; None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    import io

    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "attest", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.6, 3.4), layout="constrained")
        for panel, unit in zip(figure.subplots(1, 2), ("seconds", "megabytes")):
            for kind in dict.fromkeys(str(row["kind"]) for row in study["rows"]):
                own = [row for row in study["rows"] if row["kind"] == kind and row[unit] > 0]
                panel.plot([r["length"] for r in own], [r[unit] for r in own], marker=".", label=kind)
            panel.set(xscale="log", yscale="log", xlabel="length", ylabel=unit)
            panel.set_xticks(sorted({row["length"] for row in study["rows"]}))
            panel.set_xticks([], minor=True)
            panel.xaxis.set_major_formatter("{x:.0f}")
        panel.legend(fontsize="small")
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()
