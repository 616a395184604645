"""The report of one implementation as a plain document: what report.json holds, see schema.json."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from attest.contract.features import FEATURES
from attest.order import criterion_order
from attest.records.failure import Failure, Replay
from attest.records.plan import Plan, Target
from attest.records.record import ERROR, FAIL, KNOWN, NOT_CLAIMED, NOT_OFFERED, PASS, Record
from attest.records.verdicts import CONFORMS, CONFORMS_WITH_KNOWN, INCOMPLETE, NOT_ASKED, milestone_verdict
from attest.report.environment import environment
from attest.report.rows import (
    AcceptanceRow,
    CriterionRow,
    Document,
    FailureRow,
    LikenessRow,
    MilestoneRow,
    SelectionRow,
)
from attest.report.wording import looks_like, measured_text, replay_command
from attest.spec import Criterion, MilestoneSpec, Spec

FORMAT = 1
MET, MET_WITH_KNOWN, NOT_MET = "met", "met with known failures", "not met"
_TEXT = ("title", "statement", "why", "hint")
_LISTS = ("acceptance", "sources", "stands_on")
_ELSEWHERE = ("implementation", "criterion", "milestone", "spec_version", "policy", "claims", "packages")


def report_document(label: str, records: Sequence[Record], spec: Spec, plan: Plan | None = None) -> Document:
    """Milestones in order, each with its verdict, its acceptance criteria and its criteria.

    The document describes exactly the run: with a plan, what was selected and left no record is `missing`.
    """
    target = next((t for t in plan.targets if t.label == label), None) if plan else None
    rows = [criterion_row(spec.by_id[r.criterion], r, target) for r in records]
    selected = list(plan.chosen(label)) if plan else [r.criterion for r in records]
    milestones = [_milestone(m, rows, selected) for m in spec.milestones]
    document: Document = {
        "format": FORMAT,
        "implementation": label,
        "spec_version": spec.version,
        "profile": plan.profile if plan else _only([r["profile"] for r in rows]),
        "seed": plan.seed if plan else _only([r["seed"] for r in rows]),
        "policy": max((r.policy for r in records), default=""),
        "claims": max((r.claims for r in records), default=""),
        "packages": max((r.packages for r in records), default=""),
        "day": datetime.now(UTC).date().isoformat(),
        "environment": environment(),
        "selection": selection(spec, selected, records),
        "milestones": [m for m in milestones if m["criteria"]],
    }
    if plan and plan.shard:
        document["shard"] = {"number": plan.shard[0], "of": plan.shard[1]}
    return document


def selection(spec: Spec, selected: Sequence[str], records: Sequence[Record]) -> SelectionRow:
    """Which criteria the run was asked for, and which of them left no record."""
    recorded = {r.criterion for r in records}
    return {
        "complete": set(selected) == set(spec.by_id),
        "total": len(spec.by_id),
        "criteria": [c.id for c in spec.criteria if c.id in selected],
        "missing": [id for id in selected if id not in recorded],
    }


def _milestone(
    milestone: MilestoneSpec, rows: Sequence[CriterionRow], selected: Sequence[str]
) -> MilestoneRow:
    mine = [r for r in rows if r["id"].partition(".")[0] == milestone.id]
    absent = [c.id for c in milestone.criteria if c.id not in {r["id"] for r in mine}]
    answers = {
        key: [c.id for c in milestone.criteria if key in c.acceptance and c.level == "must"]
        for key in milestone.acceptance
    }
    return {
        "id": milestone.id,
        "title": milestone.title,
        "summary": milestone.summary,
        "verdict": verdict_of_rows(mine, absent),
        "not_selected": [id for id in absent if id not in selected],
        "acceptance": [
            _acceptance(key, text, answers[key], mine) for key, text in milestone.acceptance.items()
        ],
        "criteria": mine,
        "claimed": claimed_features(mine),
    }


def claimed_features(rows: Sequence[CriterionRow]) -> list[str]:
    """The features that the criteria of a milestone were judged for, in the order of the vocabulary."""
    found = {name for r in rows if r["verdict"] not in NOT_ASKED for name in r.get("features", ())}
    return [name for name in FEATURES if name in found]


def _acceptance(id: str, text: str, criteria: list[str], rows: Sequence[CriterionRow]) -> AcceptanceRow:
    return {"id": id, "text": text, "criteria": criteria, "verdict": acceptance_verdict(criteria, rows)}


def verdict_of_rows(rows: Sequence[CriterionRow], absent: Sequence[str]) -> str:
    """The verdict of a milestone; what was not judged keeps it from conforming."""
    verdict = milestone_verdict([Record("", r["id"], "", r["level"], verdict=r["verdict"]) for r in rows])
    return INCOMPLETE if absent and verdict in (CONFORMS, CONFORMS_WITH_KNOWN) else verdict


def acceptance_verdict(answers: Iterable[str], rows: Sequence[CriterionRow]) -> str:
    """Whether the musts that answer an acceptance criterion all ran and passed."""
    by_id = {r["id"]: r["verdict"] for r in rows}
    verdicts = {by_id.get(id) for id in answers}
    if verdicts & {FAIL, ERROR}:
        return NOT_MET
    if NOT_CLAIMED in verdicts and verdicts <= {NOT_CLAIMED, NOT_OFFERED}:
        return NOT_CLAIMED
    verdicts -= {NOT_CLAIMED}
    if verdicts == {NOT_OFFERED}:
        return NOT_OFFERED
    if not verdicts or verdicts - {PASS, KNOWN}:
        return INCOMPLETE
    return MET_WITH_KNOWN if KNOWN in verdicts else MET


def criterion_row(criterion: Criterion, record: Record, target: Target | None) -> CriterionRow:
    """What the report says of one criterion."""
    kept: dict[str, Any] = {n: value for n, value in asdict(record).items() if n not in _ELSEWHERE}
    kept["blocked_by"] = sorted(record.blocked_by, key=criterion_order)
    kept["reason"] = without_paths(record.reason)
    kept["features"] = list(record.features)
    kept["failure"] = failure_row(criterion, record, target) if record.failure else None
    text = {name: getattr(criterion, name) for name in _TEXT}
    lists = {name: list(getattr(criterion, name)) for name in _LISTS}
    row: Any = {"id": criterion.id, **text, **lists, **kept}
    found: CriterionRow = row
    return found


def failure_row(criterion: Criterion, record: Record, target: Target | None) -> FailureRow:
    """The data of a failure, and the prose that is made from it."""
    failure = record.failure
    assert failure is not None
    row: FailureRow = {
        "required": failure.required or first_sentence(criterion.statement),
        "seen": without_paths(failure.seen),
        "case": without_paths(failure.case),
        "property": failure.property,
        "ratio": failure.ratio,
        "looks_like": looks_like(failure),
        "measured": list(measured_text(failure.measured)),
        "replay": replay_command(failure.replay or _replay(record, target)),
        "limit": failure.limit,
        "likenesses": _likenesses(failure),
        "compared": failure.compared,
    }
    if failure.reproduction.file:
        row["reproduction"] = failure.reproduction.file
    elif failure.reproduction.reason:
        row["no_reproduction"] = failure.reproduction.reason
    return row


def _likenesses(failure: Failure) -> list[LikenessRow]:
    return [
        {
            "defect": likeness.defect,
            "agrees": likeness.agrees,
            "cases": likeness.cases,
            "basis": likeness.basis,
            "confidence": likeness.confidence,
        }
        for likeness in failure.likenesses
    ]


def _replay(record: Record, target: Target | None) -> Replay:
    """A replay of the whole criterion, for a failure of which the runner knows no single case."""
    request = target.request if target else record.implementation
    dtype, device = (target.dtype, target.device) if target else (None, "cpu")
    return Replay(request, record.criterion, "", record.seed, record.profile, dtype, device)


def first_sentence(text: str) -> str:
    """Up to the first full stop or semicolon that ends a clause."""
    for end in (". ", "; "):
        text = text.partition(end)[0]
    return text.strip().removesuffix(".")


def without_paths(text: str) -> str:
    """Text in which files below the working directory are named from there, and the home directory is ~."""
    for find, short in ((Path.cwd, ""), (Path.home, "~/")):
        with suppress(OSError, RuntimeError):  # the directory was deleted; the user has no home
            path = f"{find()}/"
            text = text.replace(path, short) if len(path) > 2 else text
    return text


Value = TypeVar("Value")


def _only(values: Iterable[Value]) -> Value | None:
    """The value all rows share, None where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None
