"""Small inline SVG pictures: escaped text, colours by class so that light and dark both work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from attest.report.failure_text import one_line

Attribute = str | float | int | None


def element(tag: str, *children: Markup | str, **attributes: Attribute) -> Markup:
    """One element; a trailing underscore in an attribute's name is dropped, others become dashes."""
    pairs = (
        Markup(' {}="{}"').format(Markup(k.rstrip("_").replace("_", "-")), _value(v))
        for k, v in attributes.items()
        if v is not None
    )
    inner = Markup("").join(c if isinstance(c, Markup) else escape(one_line(c)) for c in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), Markup("").join(pairs), inner)


def picture(title: str, width: float, height: float, parts: Iterable[Markup], *, kind: str) -> Markup:
    """An svg with an accessible name that keeps its shape on a narrow screen."""
    return element(
        "svg",
        element("title", title),
        *parts,
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        width=width,
        height=height,
        role="img",
        class_=f"picture {kind}",
    )


def text(x: float, y: float, content: str, *, anchor: str = "start", class_: str = "label") -> Markup:
    """A line of text."""
    return element("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def rect(
    x: float, y: float, width: float, height: float, *children: Markup, **attributes: Attribute
) -> Markup:
    """A rectangle, with a title as child where hovering should say something."""
    return element("rect", *children, x=x, y=y, width=width, height=height, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def fit(labels: Sequence[str], *, most: float = 170) -> float:
    """Room that the longest of these labels needs at the label size."""
    return min(most, 6.6 * max([len(one_line(str(label))) for label in labels], default=0) + 8)


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers between low and high."""
    if high <= low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{k * step:.6g}") for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _value(value: Attribute) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
