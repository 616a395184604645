"""The harness on trial as pictures: known defects against the criteria that catch them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attest.order import criterion_order, milestone_order
from attest.report.failure_text import one_line
from attest.report.svg import element, fit, picture, rect, text

SIZE = 14.0


def read_selftest(directory: Path) -> Mapping[str, Any] | None:
    """selftest.json of this directory, None where there is none that can be read."""
    try:
        data = json.loads((directory / "selftest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    usable = isinstance(data, dict) and isinstance(data.get("defects"), list)
    return data if usable and all(_is_defect(d) for d in data["defects"]) else None


def kill_matrices(selftest: Mapping[str, Any]) -> Iterator[tuple[str, str, Markup]]:
    """Per milestone: its id, one sentence, the picture."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for defect in selftest["defects"]:
        groups.setdefault(str(defect["milestone"]), []).append(defect)
    for milestone in sorted(groups, key=milestone_order):
        defects = groups[milestone]
        dead = sum(d["verdict"] == "killed" for d in defects)
        yield milestone, f"{dead} of {len(defects)} known defects are caught", _matrix(milestone, defects)


def _matrix(milestone: str, defects: Sequence[Mapping[str, Any]]) -> Markup:
    columns = sorted({c for d in defects for c in (*d["expected"], *d["killed_by"])}, key=criterion_order)
    names = [str(d["name"]) for d in defects]
    left, top = fit(names, most=280), fit(columns) + 6
    parts = [*_heads(columns, left, top)]
    for r, defect in enumerate(defects):
        y = top + r * SIZE
        alive = defect["verdict"] != "killed"
        parts.append(
            text(left - 8, y + 10, one_line(names[r]), anchor="end", class_="label bad" if alive else "label")
        )
        parts += [_cell(defect, column, left + c * SIZE, y) for c, column in enumerate(columns)]
    width, height = left + len(columns) * SIZE + 4, top + len(defects) * SIZE + 4
    title = f"{milestone}: defects down, criteria across; filled where the criterion caught the defect"
    return picture(title, width, height, parts, kind="kills")


def _heads(columns: Sequence[str], left: float, top: float) -> Iterator[Markup]:
    for c, column in enumerate(columns):
        place = f"translate({left + (c + 0.5) * SIZE + 3:.1f} {top - 5:.1f}) rotate(-90)"
        yield element("text", column, class_="label", transform=place)


def _cell(defect: Mapping[str, Any], column: str, x: float, y: float) -> Markup:
    killed, expected = column in defect["killed_by"], column in defect["expected"]
    kind = {(True, True): "hit", (True, False): "also", (False, True): "missed"}.get(
        (killed, expected), "off"
    )
    words = {"hit": "caught, as expected", "also": "caught too", "missed": "expected, not caught", "off": ""}[
        kind
    ]
    title = [element("title", f"{defect['name']}, {column}: {words}")] if words else []
    return rect(x, y, SIZE - 2, SIZE - 2, *title, class_=kind)


def _is_defect(value: Any) -> bool:
    if not isinstance(value, dict) or not {"name", "milestone", "verdict", "expected", "killed_by"} <= set(
        value
    ):
        return False
    return all(isinstance(c, str) for key in ("expected", "killed_by") for c in _listed(value[key]))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [None]
