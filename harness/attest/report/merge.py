"""Combine reports of one implementation whose criteria are disjoint or agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attest.order import criterion_order, milestone_order
from attest.records.record import ERROR, FAIL, KNOWN, NOT_CLAIMED, NOT_OFFERED, NOT_RUN, THIN
from attest.registry import printable
from attest.report.document import acceptance_verdict, verdict_of_rows
from attest.report.reading import ReportError, read_report, rows_of
from attest.report.rows import CriterionRow, Document, MilestoneRow, SelectionRow


def merge_files(paths: Sequence[Path], *, of_one_shard: bool = False) -> Document:
    """One report out of several report.json files; ReportError when they do not go together."""
    return merge([read_report(path) for path in paths], of_one_shard=of_one_shard)


def merge(documents: Sequence[Document], *, of_one_shard: bool = False) -> Document:
    """One report out of several: other criteria, other shards of one run, other seeds.

    Shards must all be there, once; `of_one_shard` joins the seeds of one shard, which stays one.
    """
    if not documents:
        raise ReportError("reports=none gives nothing to merge; name at least one report.json")
    _same([d["implementation"] for d in documents], "implementations")
    _same([d["spec_version"] for d in documents], "spec versions")
    if not of_one_shard:
        _check_shards(documents)
    rows = _with_blocks(_rows(documents))
    milestones = [_milestone(id, documents, rows) for id in _order(documents)]
    merged = documents[0].copy()
    if not of_one_shard:
        merged.pop("shard", None)
    merged["profile"] = _common(documents, "profile")
    merged["seed"] = _common(documents, "seed")
    merged["policy"] = max(d.get("policy", "") for d in documents)
    merged["packages"] = max(d.get("packages", "") for d in documents)
    if days := [d["day"] for d in documents if "day" in d]:
        merged["day"] = max(days)
    merged["environment"] = _environment(documents)
    merged["selection"] = _selection(milestones, documents)
    merged["milestones"] = milestones
    return merged


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


def _same(values: Sequence[str], what: str) -> None:
    first = values[0]
    for other in values[1:]:
        if other != first:
            pair = f"{printable(str(first))} and {printable(str(other))}"
            raise ReportError(f"{what} {pair} differ; merge only reports that share one")


def _rows(documents: Sequence[Document]) -> dict[str, CriterionRow]:
    found: dict[str, CriterionRow] = {}
    for document in documents:
        for id, row in rows_of(document).items():
            found[id] = _joined(found[id], row) if id in found else row
    return found


def _joined(first: CriterionRow, second: CriterionRow) -> CriterionRow:
    """Two results of one criterion: of one seed they must agree, of several they are added up."""
    if first["seed"] == second["seed"]:
        _check_agreement(first, second)
        return second if second["examples"] > first["examples"] else first
    worse = min(first, second, key=_badness)
    nearer = max(first, second, key=lambda row: -1.0 if row["worst_ratio"] is None else row["worst_ratio"])
    regimes = {*first["regimes"], *second["regimes"]}
    joined = worse.copy()
    joined["examples"] = first["examples"] + second["examples"]
    joined["floor"] = first["floor"] + second["floor"]
    joined["seconds"] = first["seconds"] + second["seconds"]
    counts = {n: first["regimes"].get(n, 0) + second["regimes"].get(n, 0) for n in sorted(regimes)}
    joined["regimes"] = counts
    joined["worst_ratio"], joined["worst_case"] = nearer["worst_ratio"], nearer["worst_case"]
    return joined


def _badness(row: CriterionRow) -> tuple[int, int, str]:
    """The worse verdict first; of two failures the one with the smaller case."""
    order = (ERROR, FAIL, NOT_RUN, THIN, NOT_OFFERED, KNOWN, NOT_CLAIMED)
    case = row["failure"]["case"] if row["failure"] else ""
    return order.index(row["verdict"]) if row["verdict"] in order else len(order), len(case), case


def _check_agreement(first: CriterionRow, second: CriterionRow) -> None:
    if first["verdict"] != second["verdict"]:
        pair = f"{first['verdict']} and {second['verdict']}"
        raise ReportError(
            f"{first['id']} is {pair} in two of the reports; run it again, or leave one of them out"
        )


def _with_blocks(rows: Mapping[str, CriterionRow]) -> dict[str, CriterionRow]:
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


def _milestone(id: str, documents: Sequence[Document], rows: Mapping[str, CriterionRow]) -> MilestoneRow:
    parts: list[MilestoneRow] = [m for d in documents for m in d["milestones"] if m["id"] == id]
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


def _absent(document: Document, milestone: MilestoneRow) -> set[str]:
    missing = {id for id in document["selection"]["missing"] if id.partition(".")[0] == milestone["id"]}
    return missing | set(milestone["not_selected"])


def _selection(milestones: Sequence[MilestoneRow], documents: Sequence[Document]) -> SelectionRow:
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
