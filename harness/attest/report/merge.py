"""Combine reports of one implementation whose criteria are disjoint or agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attest.order import criterion_order, milestone_order
from attest.records.record import ERROR, FAIL, KNOWN
from attest.registry import printable
from attest.report.document import Document, acceptance_verdict, verdict_of_rows
from attest.report.reading import ReportError, read_report, rows_of

Row = Mapping[str, Any]


def merge_files(paths: Sequence[Path]) -> Document:
    """One report out of several report.json files; ReportError when they do not go together."""
    return merge([read_report(path) for path in paths])


def merge(documents: Sequence[Document]) -> Document:
    """One report out of several; the result of the larger number of examples is kept where two agree."""
    if not documents:
        raise ReportError("reports=none gives nothing to merge; name at least one report.json")
    _same(documents, "implementation", "implementations")
    _same(documents, "spec_version", "spec versions")
    rows = _with_blocks(_rows(documents))
    milestones = [_milestone(id, documents, rows) for id in _order(documents)]
    return documents[0] | {
        "profile": _common(documents, "profile"),
        "seed": _common(documents, "seed"),
        "environment": _environment(documents),
        "selection": _selection(milestones, documents),
        "milestones": milestones,
    }


def _same(documents: Sequence[Document], key: str, what: str) -> None:
    first = documents[0][key]
    for other in documents[1:]:
        if other[key] != first:
            pair = f"{printable(str(first))} and {printable(str(other[key]))}"
            raise ReportError(f"{what} {pair} differ; merge only reports that share one")


def _rows(documents: Sequence[Document]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for document in documents:
        for id, row in rows_of(document).items():
            _check_agreement(found.get(id, row), row)
            if id not in found or row["examples"] > found[id]["examples"]:
                found[id] = row
    return found


def _check_agreement(first: Row, second: Row) -> None:
    if first["verdict"] != second["verdict"]:
        pair = f"{first['verdict']} and {second['verdict']}"
        raise ReportError(
            f"{first['id']} is {pair} in two of the reports; run it again, or leave one of them out"
        )


def _with_blocks(rows: Mapping[str, Row]) -> dict[str, Row]:
    """What a criterion stands on may have failed in another of the reports."""
    broken = {id for id, row in rows.items() if row["verdict"] in (FAIL, ERROR, KNOWN)}

    def below(id: str) -> set[str]:
        reached: set[str] = set()
        waiting = [id]
        while waiting:  # a report may hold a circle, so each id is visited once
            direct = set(rows[waiting.pop()]["stands_on"]) - reached
            reached |= direct
            waiting += [d for d in direct if d in rows]
        return reached

    return {
        id: {**row, "blocked_by": sorted((below(id) & broken) | set(row["blocked_by"]), key=criterion_order)}
        for id, row in rows.items()
    }


def _order(documents: Sequence[Document]) -> list[str]:
    return sorted({m["id"] for d in documents for m in d["milestones"]}, key=milestone_order)


def _milestone(id: str, documents: Sequence[Document], rows: Mapping[str, Row]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [m for d in documents for m in d["milestones"] if m["id"] == id]
    mine = sorted(
        (r for k, r in rows.items() if k.partition(".")[0] == id), key=lambda r: criterion_order(r["id"])
    )
    absent = set.intersection(*(_absent(d, m) for d in documents for m in d["milestones"] if m["id"] == id))
    not_selected = set.intersection(*({*p["not_selected"]} for p in parts))
    acceptance = [a | {"verdict": acceptance_verdict(a["criteria"], mine)} for a in parts[0]["acceptance"]]
    return parts[0] | {
        "verdict": verdict_of_rows(mine, sorted(absent, key=criterion_order)),
        "not_selected": sorted(not_selected, key=criterion_order),
        "acceptance": acceptance,
        "criteria": mine,
    }


def _absent(document: Document, milestone: Mapping[str, Any]) -> set[str]:
    missing = {id for id in document["selection"]["missing"] if id.partition(".")[0] == milestone["id"]}
    return missing | set(milestone["not_selected"])


def _selection(milestones: Sequence[Mapping[str, Any]], documents: Sequence[Document]) -> dict[str, Any]:
    recorded = [r["id"] for m in milestones for r in m["criteria"]]
    missing = {id for d in documents for id in d["selection"]["missing"]} - set(recorded)
    total = documents[0]["selection"]["total"]
    return {
        "complete": len(recorded) + len(missing) == total,
        "total": total,
        "criteria": [*recorded, *sorted(missing, key=criterion_order)],
        "missing": sorted(missing, key=criterion_order),
    }


def _common(documents: Sequence[Document], key: str) -> Any:
    values = {d.get(key) for d in documents}
    return values.pop() if len(values) == 1 else None


def _environment(documents: Sequence[Document]) -> dict[str, str | None]:
    """Versions that differ are all named: each result was seen under one of them."""
    merged: dict[str, str | None] = {}
    for name in documents[0]["environment"]:
        values = list(dict.fromkeys(d["environment"].get(name) for d in documents))
        merged[name] = values[0] if len(values) == 1 else " and ".join(v or "absent" for v in values)
    return merged
