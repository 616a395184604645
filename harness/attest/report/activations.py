"""What `attest compare` found: as lines, as data and as a page with a picture of the error by activation."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attest.report.wording import likenesses_text

if TYPE_CHECKING:
    from attest.diagnosis.compare import Activation, Findings

FORMAT = 1
SMALLEST = 1e-4  # of the bound; a smaller error is drawn at the edge
LARGEST = 1e9
MOST_NAMES = 40  # beside the axis; more cannot be read


def lines(found: Findings) -> Iterator[str]:
    """The findings of one implementation for a terminal."""
    right = "right" if found.right else "wrong"
    yield f"{found.implementation}: logits {right}, {_ratio(found.logits)} of the bound"
    for layer, activations in by_layer(found.activations).items():
        yield f"  {layer:<28} {_ratio(max(a.ratio for a in activations)):>10}"
    if found.first_wrong:
        yield f"  first wrong  {found.first_wrong}"
        yield f"  last right   {found.last_good or 'nothing before it'}"
        yield from (f"  looks like   {clause}" for clause in looks_like(found))
    yield from (f"  {note}" for note in found.notes)


def looks_like(found: Findings) -> list[str]:
    """How the first wrong activation differs, and the nearest known defects."""
    told = [found.numbers] if found.numbers else []
    if found.nearest is None:
        return [*told, "a small model with drawn weights is right or cannot be built: no defect was compared"]
    return [*told, likenesses_text(found.nearest.notable, found.nearest.compared)]


def by_layer(activations: Sequence[Activation]) -> dict[str, list[Activation]]:
    """Activations in order by the layer they lie in."""
    layers: dict[str, list[Activation]] = {}
    for activation in activations:
        words = activation.name.split(".")
        layer = (
            ".".join(words[:2])
            if len(words) > 1 and words[1].isdigit()
            else activation.name.partition(":")[0]
        )
        layers.setdefault(layer, []).append(activation)
    return layers


def data(weights: str, findings: Sequence[Findings]) -> dict[str, Any]:
    """What activations.schema.json describes. An error that is no finite number of bounds is null."""
    return {"format": FORMAT, "weights": weights, "implementations": [_entry(found) for found in findings]}


def _entry(found: Findings) -> dict[str, Any]:
    nearest = found.nearest.notable if found.nearest else ()
    return {
        "implementation": found.implementation,
        "right": found.right,
        "logits": _finite(found.logits),
        "way": found.way,
        "first_wrong": found.first_wrong,
        "last_good": found.last_good,
        "looks_like": found.numbers,
        "defects": [{"name": d.defect, "agrees": d.agrees, "cases": d.cases} for d in nearest],
        "notes": list(found.notes),
        "activations": {a.name: _finite(a.ratio) for a in found.activations},
    }


def page(weights: str, size: str, findings: Sequence[Findings]) -> str:
    """A self-contained page; ImportError names what is missing to draw it."""
    from markupsafe import Markup

    from attest.report.html import TEMPLATES, content_policy, environment

    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    shown = [
        {
            "found": found,
            "looks_like": looks_like(found) if found.first_wrong else [],
            "picture": _as_image(picture(found)) if found.activations else "",
            "layers": by_layer(found.activations),
        }
        for found in findings
    ]
    template = environment().get_template("activations.html.j2")
    return template.render(
        weights=weights, size=size, shown=shown, style=Markup(style), policy=content_policy("", style),
        ratio=_ratio,
    )  # fmt: skip


def picture(found: Findings) -> str:
    """Error over bound of every activation in order, as SVG; last right and first wrong one are marked."""
    from attest.report.training_pictures import as_svg, figure

    drawing = figure(9.0, 4.4 if len(found.activations) <= MOST_NAMES else 3.6)
    axes = drawing.subplots()
    heights = [min(max(a.ratio, SMALLEST), LARGEST) for a in found.activations]
    colours = ["tab:blue" if a.good else "tab:red" for a in found.activations]
    axes.scatter(range(len(heights)), heights, c=colours, s=14, zorder=3)
    axes.vlines(range(len(heights)), SMALLEST, heights, colors=colours, linewidth=0.8)
    axes.axhline(1.0, color="0.2", linewidth=1.0)
    axes.set(yscale="log", ylabel="error / bound", xlim=(-1, len(heights)))
    _mark_layers(axes, found.activations)
    _mark_ends(axes, found, heights)
    return as_svg(drawing)


def _mark_layers(axes: Any, activations: Sequence[Activation]) -> None:
    """A line between layers; their names below, or those of the activations where there are few."""
    start, places, names = 0, [], []
    for layer, members in by_layer(activations).items():
        if start:
            axes.axvline(start - 0.5, color="0.85", linewidth=0.8)
        places.append(start + (len(members) - 1) / 2)
        names.append(layer)
        start += len(members)
    if len(activations) <= MOST_NAMES:
        places, names = list(range(len(activations))), [a.name for a in activations]
    axes.set_xticks(places, names, rotation=90, fontsize=7)


def _mark_ends(axes: Any, found: Findings, heights: Sequence[float]) -> None:
    order = {a.name: i for i, a in enumerate(found.activations)}
    for name, what, colour in (
        (found.last_good, "last right", "tab:blue"),
        (found.first_wrong, "first wrong", "tab:red"),
    ):
        if name in order:
            i = order[name]
            label = f"{what}: {name}"
            axes.scatter([i], [heights[i]], s=90, facecolors="none", edgecolors=colour, label=label, zorder=4)
    if found.first_wrong or found.last_good:
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(0, 1.18), ncols=2, frameon=False)


def _as_image(svg: str) -> str:
    """As the address of an image: the page's policy lets no style of another file run."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ratio(value: float) -> str:
    return f"{value:.3g}"


def size_text(operation_shapes: Mapping[str, Sequence[int]]) -> str:
    """How many parameters these shapes hold."""
    return f"{sum(math.prod(shape) for shape in operation_shapes.values()):,} parameters"
