"""Combine reports of one implementation whose criteria are disjoint or agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attest.order import criterion_order, milestone_order
from attest.records.record import ERROR, FAIL, KNOWN, NOT_OFFERED, NOT_RUN, THIN
from attest.registry import printable
from attest.report.document import Document, acceptance_verdict, verdict_of_rows
from attest.report.reading import ReportError, read_report, rows_of

Row = Mapping[str, Any]


def merge_files(paths: Sequence[Path], *, of_one_shard: bool = False) -> Document:
    """One report out of several report.json files; ReportError when they do not go together."""
    return merge([read_report(path) for path in paths], of_one_shard=of_one_shard)


def merge(documents: Sequence[Document], *, of_one_shard: bool = False) -> Document:
    """One report out of several: other criteria, other shards of one run, other seeds.

    Shards must all be there, once; `of_one_shard` joins the seeds of one shard, which stays one.
    """
    if not documents:
        raise ReportError("reports=none gives nothing to merge; name at least one report.json")
    _same(documents, "implementation", "implementations")
    _same(documents, "spec_version", "spec versions")
    if not of_one_shard:
        _check_shards(documents)
    rows = _with_blocks(_rows(documents))
    milestones = [_milestone(id, documents, rows) for id in _order(documents)]
    kept = {k: v for k, v in documents[0].items() if k != "shard" or of_one_shard}
    return kept | {
        "profile": _common(documents, "profile"),
        "seed": _common(documents, "seed"),
        "policy": max(d.get("policy", "") for d in documents),
        "environment": _environment(documents),
        "selection": _selection(milestones, documents),
        "milestones": milestones,
    }


def _check_shards(documents: Sequence[Document]) -> None:
    """Every part of a run once, for each seed; ReportError names the one that is missing or there twice."""
    parts = [d["shard"] for d in documents if "shard" in d]
    if not parts:
        return
    if len(parts) < len(documents) or len({part["of"] for part in parts}) > 1:
        raise ReportError("shards of different runs do not go together; merge all shards of one run")
    for seed in {d["seed"] for d in documents}:
        numbers = [d["shard"]["number"] for d in documents if d["seed"] == seed]
        for number in range(1, parts[0]["of"] + 1):
            if numbers.count(number) != 1:
                what = "is missing" if number not in numbers else "is there twice"
                raise ReportError(
                    f"shard {number}/{parts[0]['of']} of seed {seed} {what}; name every shard once"
                )


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
            found[id] = _joined(found[id], row) if id in found else row
    return found


def _joined(first: Row, second: Row) -> Row:
    """Two results of one criterion: of one seed they must agree, of several they are added up."""
    if first["seed"] == second["seed"]:
        _check_agreement(first, second)
        return second if second["examples"] > first["examples"] else first
    worse = min(first, second, key=_badness)
    nearer = max(first, second, key=lambda row: -1.0 if row["worst_ratio"] is None else row["worst_ratio"])
    regimes = {*first["regimes"], *second["regimes"]}
    sums = {name: first[name] + second[name] for name in ("examples", "floor", "seconds")}
    return {
        **worse,
        **sums,
        "regimes": {n: first["regimes"].get(n, 0) + second["regimes"].get(n, 0) for n in sorted(regimes)},
        "worst_ratio": nearer["worst_ratio"],
        "worst_case": nearer["worst_case"],
    }


def _badness(row: Row) -> tuple[int, int, str]:
    """The worse verdict first; of two failures the one with the smaller case."""
    order = (ERROR, FAIL, NOT_RUN, THIN, NOT_OFFERED, KNOWN)
    case = row["failure"]["case"] if row["failure"] else ""
    return order.index(row["verdict"]) if row["verdict"] in order else len(order), len(case), case


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
