"""The report of one implementation as a plain document: what report.json holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from attest.running.records import Record
from attest.running.verdicts import milestone_verdict
from attest.spec import Criterion, Milestone, Spec

FORMAT = 1


def report_document(label: str, records: Sequence[Record], spec: Spec) -> dict[str, Any]:
    """Milestones in order, each with its verdict, its acceptance criteria and its criteria."""
    milestones = []
    for milestone in spec.milestones:
        mine = [r for r in records if r.milestone == milestone.id]
        if mine:
            milestones.append(_milestone(milestone, mine, spec))
    return {
        "format": FORMAT,
        "implementation": label,
        "spec_version": spec.version,
        "profile": records[0].profile if records else "",
        "seed": records[0].seed if records else 0,
        "milestones": milestones,
    }


def _milestone(milestone: Milestone, records: Sequence[Record], spec: Spec) -> dict[str, Any]:
    rows = [_criterion(spec.by_id[r.criterion], r) for r in records]
    return {
        "id": milestone.id,
        "title": milestone.title,
        "summary": milestone.summary,
        "verdict": milestone_verdict(records),
        "acceptance": [_acceptance(key, text, rows) for key, text in milestone.acceptance.items()],
        "criteria": rows,
    }


def _acceptance(key: str, text: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    answered = [r for r in rows if key in r["acceptance"] and r["level"] == "must"]
    return {
        "id": key,
        "text": text,
        "criteria": [r["id"] for r in answered],
        "verdicts": sorted({r["verdict"] for r in answered}),
    }


def _criterion(criterion: Criterion, record: Record) -> dict[str, Any]:
    kept = asdict(record)
    for name in ("implementation", "criterion", "milestone", "spec_version", "profile", "seed"):
        del kept[name]
    text = {name: getattr(criterion, name) for name in ("title", "statement", "why", "hint")}
    return {"id": criterion.id, "acceptance": list(criterion.acceptance), **text, **kept}
