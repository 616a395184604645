"""The report of one implementation as a plain document: what report.json holds, see schema.json."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attest.order import criterion_order
from attest.records.plan import Plan, Target
from attest.records.record import ERROR, FAIL, KNOWN, NOT_OFFERED, PASS, Record
from attest.records.verdicts import CONFORMS, CONFORMS_WITH_KNOWN, INCOMPLETE, milestone_verdict
from attest.report.environment import environment
from attest.spec import Criterion, MilestoneSpec, Spec

FORMAT = 1
MET, MET_WITH_KNOWN, NOT_MET = "met", "met with known failures", "not met"
Document = dict[str, Any]
_TEXT = ("title", "statement", "why", "hint")
_LISTS = ("acceptance", "sources", "stands_on")
_ELSEWHERE = ("implementation", "criterion", "milestone", "spec_version", "policy")


def report_document(label: str, records: Sequence[Record], spec: Spec, plan: Plan | None = None) -> Document:
    """Milestones in order, each with its verdict, its acceptance criteria and its criteria.

    The document describes exactly the run: with a plan, what was selected and left no record is `missing`.
    """
    target = next((t for t in plan.targets if t.label == label), None) if plan else None
    rows = [_criterion(spec.by_id[r.criterion], r, target) for r in records]
    selected = list(plan.chosen(label)) if plan else [r.criterion for r in records]
    milestones = [_milestone(m, rows, selected) for m in spec.milestones]
    shard = {"shard": dict(zip(("number", "of"), plan.shard))} if plan and plan.shard else {}
    return {
        "format": FORMAT,
        "implementation": label,
        "spec_version": spec.version,
        "profile": plan.profile if plan else _only(rows, "profile"),
        "seed": plan.seed if plan else _only(rows, "seed"),
        "policy": max((r.policy for r in records), default=""),
        **shard,
        "environment": environment(),
        "selection": selection(spec, selected, records),
        "milestones": [m for m in milestones if m["criteria"]],
    }


def selection(spec: Spec, selected: Sequence[str], records: Sequence[Record]) -> Document:
    """Which criteria the run was asked for, and which of them left no record."""
    recorded = {r.criterion for r in records}
    return {
        "complete": set(selected) == set(spec.by_id),
        "total": len(spec.by_id),
        "criteria": [c.id for c in spec.criteria if c.id in selected],
        "missing": [id for id in selected if id not in recorded],
    }


def _milestone(milestone: MilestoneSpec, rows: Sequence[Document], selected: Sequence[str]) -> Document:
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
            {
                "id": key,
                "text": text,
                "criteria": answers[key],
                "verdict": acceptance_verdict(answers[key], mine),
            }
            for key, text in milestone.acceptance.items()
        ],
        "criteria": mine,
    }


def verdict_of_rows(rows: Sequence[Mapping[str, Any]], absent: Sequence[str]) -> str:
    """The verdict of a milestone; what was not judged keeps it from conforming."""
    verdict = milestone_verdict([Record("", r["id"], "", r["level"], verdict=r["verdict"]) for r in rows])
    return INCOMPLETE if absent and verdict in (CONFORMS, CONFORMS_WITH_KNOWN) else verdict


def acceptance_verdict(answers: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Whether the musts that answer an acceptance criterion all ran and passed."""
    by_id = {r["id"]: r["verdict"] for r in rows}
    verdicts = {by_id.get(id) for id in answers}
    if verdicts & {FAIL, ERROR}:
        return NOT_MET
    if verdicts == {NOT_OFFERED}:
        return NOT_OFFERED
    if not verdicts or verdicts - {PASS, KNOWN}:
        return INCOMPLETE
    return MET_WITH_KNOWN if KNOWN in verdicts else MET


def _criterion(criterion: Criterion, record: Record, target: Target | None) -> Document:
    kept = {name: value for name, value in asdict(record).items() if name not in _ELSEWHERE}
    kept["blocked_by"] = sorted(record.blocked_by, key=criterion_order)
    kept["reason"] = without_paths(record.reason)
    if record.failure is not None:
        replay = record.failure.replay or replay_command(record, target)
        texts = {name: without_paths(kept["failure"][name]) for name in ("seen", "case", "looks_like")}
        required = record.failure.required or first_sentence(criterion.statement)
        kept["failure"] |= texts | {"required": required, "replay": replay}
    text = {name: getattr(criterion, name) for name in _TEXT}
    lists = {name: list(getattr(criterion, name)) for name in _LISTS}
    return {"id": criterion.id, **text, **lists, **kept}


def replay_command(record: Record, target: Target | None) -> str:
    """A command that judges this criterion again, to be pasted into a shell."""
    request = target.request if target else record.implementation
    words = ["pytest", f"--impl={without_paths(request)}", "--criterion", record.criterion]
    words += ["--attest-seed", str(record.seed)]
    if record.profile != "standard":
        words += ["--attest-profile", record.profile]
    if target and target.dtype and "dtype=" not in request:
        words += ["--attest-dtype", target.dtype]
    if target and target.device != "cpu" and "device=" not in request:
        words += ["--attest-device", target.device]
    return shlex.join(words)


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


def _only(rows: Sequence[Mapping[str, Any]], name: str) -> Any:
    """The value all rows share, None where they differ."""
    values = {r[name] for r in rows}
    return values.pop() if len(values) == 1 else None
