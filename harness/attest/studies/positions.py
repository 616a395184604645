"""What each kind of positions loses at the length of training, and at twice that.

A chain of 15 symbols is repeated over and over. Whoever looks back 15 places knows what comes: those who
learned to do so by distance can go on beyond the length of training, those who learned it by place cannot. It
judges nothing: three seeds show how far runs differ by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer, finite_number
from attest.contract import DECODER_ONLY, Config
from attest.outcomes import NotOffered
from attest.trained.entropy import CHAIN, TRAINING, EntropySource

KINDS = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
LENGTH = 2 * CHAIN
SEEDS, STEPS, HELD_OUT = 3, 400, 128
QUICK = {"seeds": 1, "steps": 40}  # enough to see that everything runs; too few steps to learn from
CRITERION = "M9.28"  # the study uses its source, and reports show it there
Study = dict[str, Any]


def positions_study(
    impl: JudgedImplementation,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = STEPS,
    progress: Callable[[str], None] = lambda line: None,
) -> Study:
    """Nats a label above what the source itself loses, for each kind that is claimed and each seed."""
    if not impl.offers(DECODER_ONLY.trainer):
        raise NotOffered(f"{DECODER_ONLY.trainer} is not offered; the study trains language models")
    claimed = impl.claims.values("positions", DECODER_ONLY.trainer)
    rows = []
    for kind in (kind for kind in KINDS if kind in claimed):
        for seed in seeds:
            found = _measured(impl, kind, seed, steps)
            rows.append({"positions": kind, "seed": seed, **found})
            progress(
                f"{kind}, seed {seed}: {found['once']:.3f} at {LENGTH} symbols, {found['twice']:.3f} at twice"
            )
    return {
        "format": 1,
        "study": "positions",
        "criterion": CRITERION,
        "implementation": impl.name,
        "task": f"a chain of {CHAIN} symbols over and over, {LENGTH} of them, {steps} steps",
        "seeds": list(seeds),
        "rows": rows,
        "curves": _curves(rows),
        "pictures": ["study_positions.svg"],
    }


def _measured(impl: JudgedImplementation, kind: str, seed: int, steps: int) -> dict[str, float]:
    trainer = JudgedTrainer(impl, _config(impl, kind, seed), architecture=DECODER_ONLY)
    source = EntropySource(length=LENGTH, ends=False)
    for batch, _ in zip(source.batches("train", seed), range(steps)):
        trainer.step(batch)
    longer = EntropySource(length=2 * LENGTH, ends=False)
    return {"once": _excess(trainer, source), "twice": _excess(trainer, longer)}


def _config(impl: JudgedImplementation, kind: str, seed: int) -> Config:
    plain = TRAINING.but(positions=kind, norm="pre", max_len=2 * LENGTH + 1, dtype=impl.dtypes[0], seed=seed)
    return impl.claims.nearest(DECODER_ONLY.trainer, plain)


def _excess(trainer: JudgedTrainer, source: EntropySource) -> float:
    """The loss of held-out sequences above what the source itself loses on them."""
    held_out = source.held_out(HELD_OUT)
    loss = finite_number(trainer.evaluate([source.batch(held_out)])["loss"], "the evaluated loss")
    return loss - source.ideal_loss(held_out)


def _curves(rows: Sequence[Study]) -> dict[str, Study]:
    """One line for each kind: the mean over the seeds at both lengths."""
    return {
        f"positions {kind}": {
            "x": [LENGTH, 2 * LENGTH],
            "y": [float(f"{np.mean(_of(rows, kind, where)):.5g}") for where in ("once", "twice")],
            "x_label": "symbols",
            "y_label": "nats a label above the source",
        }
        for kind in _kinds(rows)
    }


def _kinds(rows: Sequence[Study]) -> list[str]:
    return list(dict.fromkeys(str(row["positions"]) for row in rows))


def _of(rows: Sequence[Study], kind: str, where: str) -> list[float]:
    return [float(row[where]) for row in rows if row["positions"] == kind]


def table(study: Study) -> list[str]:
    """Mean, least and most over the seeds."""
    lines = [f"{'nats a label above the source':32}{LENGTH:>3} symbols{'':14}{2 * LENGTH:>3} symbols"]
    for kind in _kinds(study["rows"]):
        cells = []
        for where in ("once", "twice"):
            found = _of(study["rows"], kind, where)
            cells.append(f"{np.mean(found):7.3f} ({min(found):.3f} to {max(found):.3f})")
        lines.append(f"{kind:28}{cells[0]:>26}{cells[1]:>26}")
    return lines


def draw_positions(study: Study) -> str | None:
    """An SVG with a dot for each seed; None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    import io

    from matplotlib.figure import Figure

    kinds = _kinds(study["rows"])
    with matplotlib.rc_context({"svg.hashsalt": "attest", "svg.fonttype": "none"}):
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        panel = figure.subplots()
        for where, colour, by, says in (
            ("once", "tab:blue", -0.17, f"{LENGTH} symbols, as trained"),
            ("twice", "tab:red", 0.17, f"{2 * LENGTH} symbols"),
        ):
            places = np.arange(len(kinds)) + by
            means = [float(np.mean(_of(study["rows"], kind, where))) for kind in kinds]
            panel.bar(places, means, 0.32, color=colour, alpha=0.5, label=says)
            for place, kind, mean in zip(places, kinds, means):
                found = _of(study["rows"], kind, where)
                panel.plot([place] * len(found), found, ".", color="black", markersize=4)
                height = max(0.0, *found)
                panel.annotate(f"{mean:.2f}", (place, height), (0, 3), textcoords="offset points",
                               ha="center", fontsize=8)  # fmt: skip
        panel.set_xticks(range(len(kinds)), kinds)
        panel.set_ylabel("nats a label above the source")
        panel.margins(y=0.12)
        panel.legend(title="bars: mean; dots: seeds", fontsize=8, title_fontsize=8)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def markdown(study: Study) -> str:
    """A page with the same numbers, and how they were made."""
    seeds = ", ".join(map(str, study["seeds"]))
    lines = [
        f"# Kinds of positions at the length of training and at twice that: {study['implementation']}",
        "",
        f"{study['task'][0].upper()}{study['task'][1:]}; seeds {seeds}. Each cell is the mean over the seeds",
        "of the loss of held-out sequences, in nats a label above what the source itself loses, with the",
        "least and the most. The rows of learned positions beyond those of the training are as they were",
        "drawn.",
        "",
        f"| positions | {LENGTH} symbols | {2 * LENGTH} symbols |",
        "|---|---|---|",
    ]
    for kind in _kinds(study["rows"]):
        found = [_of(study["rows"], kind, where) for where in ("once", "twice")]
        cells = [f"{np.mean(x):.3f} ({min(x):.3f} to {max(x):.3f})" for x in found]
        lines.append(f"| {kind} | {cells[0]} | {cells[1]} |")
    command = f"attest study positions --impl {study['implementation']}"
    return "\n".join([*lines, "", "![The same as a picture](study_positions.svg)", "", f"`{command}`", ""])
