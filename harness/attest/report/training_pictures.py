"""Pictures of a training by epochs: its curves and its confusion matrix, as SVG by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any


def curves(losses: Sequence[float], accuracies: Sequence[float], best: int) -> str:
    """Loss and validation accuracy over epochs, the kept epoch marked; ImportError without matplotlib."""
    drawing = figure(7.6, 3.0)
    left, right = drawing.subplots(1, 2)
    epochs = range(1, len(losses) + 1)
    left.plot(epochs, losses, color="tab:red")
    left.set(xlabel="epoch", ylabel="training loss", yscale="log")
    right.plot(epochs, [100 * a for a in accuracies], color="tab:blue")
    right.axvline(best, color="0.6", linestyle=":", label=f"kept: epoch {best}")
    right.set(xlabel="epoch", ylabel="validation questions right, %", ylim=(0, 102))
    right.legend(fontsize="small", loc="lower right")
    return as_svg(drawing)


def confusion_matrix(counts: Sequence[Sequence[int]], title: str) -> str:
    """Wanted digit by written digit, each cell with its count; ImportError without matplotlib."""
    drawing = figure(5.2, 4.6)
    axes = drawing.subplots()
    shares = [[cell / max(sum(row), 1) for cell in row] for row in counts]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    columns = [*map(str, range(len(counts[0]) - 1)), "other"]
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(counts)), [str(i) for i in range(len(counts))])
    axes.set(xlabel="written", ylabel="wanted", title=title)
    for r, row in enumerate(counts):
        for c, count in enumerate(row):
            if count:
                shade = "white" if shares[r][c] > 0.5 else "black"
                axes.text(c, r, str(count), ha="center", va="center", fontsize=7, color=shade)
    return as_svg(drawing)


def figure(width: float, height: float) -> Any:
    """An empty figure that needs no display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def as_svg(drawing: Any) -> str:
    """The same bytes for the same numbers."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "attest", "svg.fonttype": "none"}):
        written = io.StringIO()
        drawing.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()
