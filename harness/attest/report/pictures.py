"""Pictures of a record's data: information flow, heat maps, curves, samples, the error against its bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from attest.report.curves import draw_curves
from attest.report.failure_text import one_line
from attest.report.svg import element, fit, line, picture, rect, text

MOST_CELLS = 96
Grid = Sequence[Sequence[Any]]


def pictures(data: Mapping[str, Any]) -> list[Markup]:
    """Every picture the data holds; one that cannot be drawn says so instead of costing the report."""
    found: list[Markup] = []
    for key, draw in _DRAWN.items():
        if not data.get(key):
            continue
        try:
            found += draw(data[key])
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
            found.append(element("p", f"{key} could not be drawn: {error}", class_="quiet"))
    return found


def bound_bar(ratio: float) -> Markup:
    """The worst error as a part of the bound; beyond it the bar is full and marked."""
    width, height = 200.0, 14.0
    filled = width * min(ratio, 1.0)
    parts = [
        rect(0, 3, width, 8, class_="track"),
        rect(0, 3, max(filled, 1.0), 8, class_="over-bound" if ratio > 1 else "filled"),
        line(width - 0.75, 0, width - 0.75, height, "limit"),
    ]
    return picture(f"worst error {ratio:.3g} of its bound", width, height, parts, kind="bar")


def _flow(flow: Mapping[str, Any]) -> Iterator[Markup]:
    """Required beside seen; cells that differ are crossed."""
    required, seen = flow["required"], flow["seen"]
    rows, columns = _shape(required)
    if _shape(seen) != (rows, columns):
        raise ValueError(f"required is {rows} x {columns}, seen is {' x '.join(map(str, _shape(seen)))}")
    names = [one_line(str(n)) for n in flow.get("rows") or range(rows)]
    heads = [one_line(str(n)) for n in flow.get("columns") or range(columns)]
    size = _cell_size(columns)
    left, top, gap = fit(names), 22 + fit(heads), 34.0
    width = left + 2 * columns * size + gap + 4
    parts = [*_labels(names, left, top, size)]
    for i, (title, grid) in enumerate((("required", required), ("seen", seen))):
        x = left + i * (columns * size + gap)
        parts.append(text(x, 12, title, class_="label strong"))
        parts += _headings(heads, x, top, size)
        parts += _flow_cells(grid, required, x, top, size)
    wrong = sum(bool(a) != bool(b) for p, q in zip(required, seen) for a, b in zip(p, q))
    title = (
        f"Information flow: which output depends on which input; {wrong} cells differ from what is required"
    )
    yield picture(title, width, top + rows * size + 4, parts, kind="flow")


def _flow_cells(grid: Grid, required: Grid, x: float, top: float, size: float) -> Iterator[Markup]:
    for r, row in enumerate(grid):
        for c, value in enumerate(row):
            left, upper = x + c * size, top + r * size
            yield rect(left, upper, size - 1.5, size - 1.5, class_="on" if value else "off")
            if bool(value) != bool(required[r][c]):
                inner = size - 1.5
                yield line(left + 2, upper + 2, left + inner - 2, upper + inner - 2, "cross")
                yield line(left + inner - 2, upper + 2, left + 2, upper + inner - 2, "cross")


def _heatmap(heatmap: Mapping[str, Any]) -> Iterator[Markup]:
    """Cells by value from the smallest to the largest, each with its number under the pointer."""
    values = heatmap["values"]
    rows, columns = _shape(values)
    names = [one_line(str(n)) for n in heatmap.get("row_labels") or range(rows)]
    heads = [one_line(str(n)) for n in heatmap.get("column_labels") or range(columns)]
    title = str(heatmap.get("title", ""))
    numbers = [float(v) for row in values for v in row if v is not None and math.isfinite(float(v))]
    low, high = min([0.0, *numbers]), max(numbers, default=0.0)
    size, left, top = _cell_size(columns), fit(names), 22 + fit(heads)
    parts = [text(0, 12, title, class_="label strong"), *_labels(names, left, top, size)]
    parts += _headings(heads, left, top, size)
    for r, row in enumerate(values):
        for c, value in enumerate(row):
            parts.append(_heat_cell(value, low, high, left + c * size, top + r * size, size))
    bottom = top + rows * size + 18
    parts.append(text(left, bottom, f"white {low:.3g}, full colour {high:.3g}"))
    width = max(left + columns * size + 4, fit([title], most=600), left + 190)
    yield picture(title or "heat map", width, bottom + 6, parts, kind="heatmap")


def _heatmaps(heatmaps: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    """One after the other."""
    for heatmap in heatmaps:
        yield from _heatmap(heatmap)


def _heat_cell(value: Any, low: float, high: float, x: float, y: float, size: float) -> Markup:
    number = None if value is None else float(value)
    if number is None or not math.isfinite(number):
        return rect(x, y, size - 1, size - 1, element("title", "not a number"), class_="nan")
    share = (number - low) / ((high - low) or 1.0)
    shown = element("title", f"{number:.4g}")
    return rect(x, y, size - 1, size - 1, shown, class_="heat", fill_opacity=round(share, 3))


def _samples(samples: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    """A table of inputs, outputs and what was wanted."""
    known = any(sample.get("wanted") is not None for sample in samples[:20])
    names = ("input", "output", *(("wanted", "") if known else ()))
    head = element("tr", *(element("th", name, scope="col") for name in names))
    rows = [_sample(sample, known) for sample in samples[:20]]
    yield element("table", element("thead", head), element("tbody", *rows), class_="samples")


def _sample(sample: Mapping[str, Any], known: bool) -> Markup:
    """`known`: whether what is wanted has a column."""
    if not known:
        return element("tr", *(element("td", _tokens(sample.get(name))) for name in ("input", "output")))
    cells = [element("td", _tokens(sample.get(name))) for name in ("input", "output", "wanted")]
    wanted = sample.get("wanted")
    mark = "" if wanted is None else "equal" if wanted == sample.get("output") else "differs"
    return element("tr", *cells, element("td", mark, class_=mark or None))


def _tokens(value: Any) -> str:
    return (
        " ".join(map(str, value)) if isinstance(value, list | tuple) else str("" if value is None else value)
    )


def _shape(grid: Grid) -> tuple[int, int]:
    rows, columns = len(grid), len(grid[0])
    if any(len(row) != columns for row in grid):
        raise ValueError("its rows differ in length")
    if max(rows, columns) > MOST_CELLS:
        raise ValueError(f"{rows} x {columns} cells are more than {MOST_CELLS} either way")
    return rows, columns


def _cell_size(columns: int) -> float:
    return max(6.0, min(20.0, 340.0 / columns))


def _labels(names: Sequence[str], left: float, top: float, size: float) -> Iterator[Markup]:
    stride = max(1, math.ceil(11 / size))
    for i, name in enumerate(names[::stride]):
        yield text(left - 6, top + (i * stride + 0.5) * size + 3, name, anchor="end")


def _headings(heads: Sequence[str], x: float, top: float, size: float) -> Iterator[Markup]:
    """Column labels, standing upright to save room."""
    stride = max(1, math.ceil(11 / size))
    for i, name in enumerate(heads[::stride]):
        at_x, at_y = x + (i * stride + 0.5) * size + 3, top - 5
        yield element("text", name, class_="label", transform=f"translate({at_x:.1f} {at_y:.1f}) rotate(-90)")


_DRAWN: Mapping[str, Any] = {
    "flow": _flow,
    "heatmap": _heatmap,
    "heatmaps": _heatmaps,
    "curves": draw_curves,
    "samples": _samples,
}
