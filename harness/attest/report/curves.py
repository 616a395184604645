"""Curves of a record (loss, learning rate, cost of a cached step) as SVG charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from attest.report.svg import element, line, picture, text, ticks

WIDTH, HEIGHT = 460.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 26.0, 36.0
MOST_POINTS = 400
STYLES = 4
Points = list[tuple[float, float | None]]


def draw_curves(curves: Mapping[str, Mapping[str, Any]]) -> Iterator[Markup]:
    """One chart for all curves with the same axes."""
    groups: dict[tuple[str, str], dict[str, Points]] = {}
    for name, curve in curves.items():
        axes = str(curve.get("x_label", "")), str(curve.get("y_label", ""))
        groups.setdefault(axes, {})[str(name)] = _points(curve["x"], curve["y"])
    for (x_label, y_label), series in groups.items():
        yield _chart(series, x_label, y_label)


def _points(xs: Sequence[Any], ys: Sequence[Any]) -> Points:
    """Pairs, thinned where there are more than a screen shows; None where y is not a number."""
    pairs = [(float(x), _number(y)) for x, y in zip(xs, ys, strict=True)]
    stride = max(1, math.ceil(len(pairs) / MOST_POINTS))
    thinned = pairs[::stride]
    return thinned if not pairs or thinned[-1] == pairs[-1] else [*thinned, pairs[-1]]


def _number(value: Any) -> float | None:
    number = None if value is None else float(value)
    return number if number is not None and math.isfinite(number) else None


def _chart(series: Mapping[str, Points], x_label: str, y_label: str) -> Markup:
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points if y is not None]
    if not xs or not ys:
        raise ValueError(f"no numbers to draw in {', '.join(series)}")
    across = _scale(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    logarithmic = min(ys) > 0 and max(ys) / min(ys) > 1000
    low, high = (math.log10(min(ys)), math.log10(max(ys))) if logarithmic else (min([0.0, *ys]), max(ys))
    up = _scale(low, high, HEIGHT - BOTTOM, TOP)
    height: Callable[[float], float] = (lambda y: up(math.log10(y))) if logarithmic else up
    parts = [
        *_axes(across, up, (min(xs), max(xs)), (low, high), logarithmic),
        *_names(series, x_label, y_label + (" (log)" if logarithmic else "")),
        *(_path(points, across, height, i % STYLES) for i, points in enumerate(series.values())),
    ]
    return picture(f"{', '.join(series)}: {y_label} over {x_label}", WIDTH, HEIGHT, parts, kind="chart")


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = (high - low) or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _axes(
    across: Callable[[float], float],
    up: Callable[[float], float],
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    logarithmic: bool,
) -> Iterator[Markup]:
    for value in _levels(*y_range, logarithmic):
        shown = f"1e{value:.0f}" if logarithmic else f"{value:g}"
        yield line(LEFT, up(value), WIDTH - RIGHT, up(value), "grid")
        yield text(LEFT - 6, up(value) + 4, shown, anchor="end")
    for value in ticks(*x_range, 5):
        yield text(across(value), HEIGHT - BOTTOM + 16, f"{value:g}", anchor="middle")
    yield line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis")


def _levels(low: float, high: float, logarithmic: bool) -> list[float]:
    if logarithmic:
        return [float(k) for k in range(math.ceil(low), math.floor(high) + 1)]
    return ticks(low, high)


def _names(series: Mapping[str, Points], x_label: str, y_label: str) -> Iterator[Markup]:
    yield text(WIDTH - RIGHT, HEIGHT - 4, x_label, anchor="end")
    yield text(0, 12, y_label)
    x = WIDTH - RIGHT
    for i, name in reversed(list(enumerate(series))):
        yield text(x, 12, name, anchor="end", class_=f"label key{i % STYLES}")
        x -= 6.4 * len(name)
        yield line(x - 22, 8, x - 4, 8, f"curve curve{i % STYLES}")
        x -= 34


def _path(
    points: Points, across: Callable[[float], float], up: Callable[[float], float], style: int
) -> Markup:
    """A polyline that breaks where there is no number."""
    steps, pen = [], "M"
    for x, y in points:
        if y is None:
            pen = "M"
        else:
            steps.append(f"{pen}{across(x):.1f} {up(y):.1f}")
            pen = "L"
    return element("path", d=" ".join(steps), class_=f"curve curve{style}", fill="none")
