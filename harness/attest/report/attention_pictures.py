"""Attention maps as a picture and as text: a panel for every head and for their mean, tokens on the axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Panel:
    """The heads of one attention of one layer: weights (H, T, S), and what stands on the axes."""

    title: str
    weights: npt.NDArray[Any]
    queries: Sequence[str]
    keys: Sequence[str]

    @property
    def drawn(self) -> list[tuple[str, npt.NDArray[Any]]]:
        """Every head, then the mean."""
        heads = [(f"head {i}", head) for i, head in enumerate(self.weights)]
        return [*heads, ("mean", self.weights.mean(axis=0))]


def lines(panel: Panel) -> Iterator[str]:
    """Each map as a small table: a row for each query, a column for each key."""
    name_width = max(len(q) for q in panel.queries)
    cell = max(5, *(len(k) + 1 for k in panel.keys))
    for title, weights in panel.drawn:
        yield f"{panel.title}, {title}"
        yield " " * name_width + "".join(f"{key:>{cell}}" for key in panel.keys)
        for query, row in zip(panel.queries, weights):
            yield f"{query:>{name_width}}" + "".join(f"{w:>{cell}.2f}" for w in row)
        yield ""


def draw(panels: Sequence[Panel], path: Path) -> None:
    """A row of maps for each panel; ImportError without matplotlib."""
    from matplotlib.figure import Figure

    columns = max(len(panel.drawn) for panel in panels)
    figure = Figure(figsize=(1.2 + 1.9 * columns, 0.6 + 2.2 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), columns, squeeze=False)
    image = None
    for row, panel in zip(grid, panels):
        for axes in row[len(panel.drawn) :]:
            axes.axis("off")
        for axes, (title, weights) in zip(row, panel.drawn):
            image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
            axes.set_title(title, fontsize=8)
            axes.set_xticks(range(len(panel.keys)), panel.keys, fontsize=7, rotation=90)
            axes.set_yticks(range(len(panel.queries)), panel.queries, fontsize=7)
        row[0].set_ylabel(f"{panel.title}\nquery", fontsize=8)
        row[0].set_xlabel("key", fontsize=8)
    bar = figure.colorbar(image, ax=grid, shrink=0.6)  # type: ignore[arg-type]
    bar.set_label("weight", fontsize=8)
    figure.savefig(path, dpi=130)


def row_sums(panel: Panel) -> npt.NDArray[Any]:
    """(H, T): 1 wherever a query sees a key."""
    return np.asarray(panel.weights.sum(axis=-1))
