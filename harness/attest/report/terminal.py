"""The closing lines of a run on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attest.running.plan import Plan
from attest.running.records import FAIL, KNOWN, NOT_OFFERED, PASS, Record
from attest.running.verdicts import first_to_fix, milestone_verdict
from attest.spec import Spec


def summary_lines(
    by_implementation: Mapping[str, Sequence[Record]], spec: Spec, plan: Plan, missing: Sequence[str]
) -> Iterator[str]:
    """Per implementation: one line per milestone, then the first thing to fix."""
    for label, records in by_implementation.items():
        yield f"{label}"
        for milestone in spec.milestones:
            mine = [r for r in records if r.milestone == milestone.id]
            if mine:
                yield f"  {milestone.id:<3} {milestone.title:<44} {_counted(mine)}"
        yield from _next_step(label, records, spec)
        yield f"  report: {_shown(plan.reports, label)}"
    if missing:
        yield f"{len(missing)} records are missing, so this run proves nothing: {', '.join(missing[:12])}"


def _counted(records: Sequence[Record]) -> str:
    verdict = milestone_verdict(records)
    if verdict == NOT_OFFERED:
        return verdict
    counts = Counter(r.verdict for r in records)
    parts = [f"{counts[PASS]} of {len(records)} pass"]
    parts += [f"{n} {v}" for v, n in counts.items() if v != PASS]
    return f"{verdict} ({', '.join(parts)})"


def _next_step(label: str, records: Sequence[Record], spec: Spec) -> Iterator[str]:
    first = first_to_fix(records)
    if first is not None:
        yield f"  next: {first.criterion} {spec.by_id[first.criterion].title}; see `attest explain {first.criterion}`"
        if first.failure and first.failure.looks_like:
            yield f"        looks like {first.failure.looks_like}"
        return
    open_ = [r for r in records if r.verdict == FAIL]
    if open_:
        yield f"  also: {', '.join(r.criterion for r in open_)} (should) fail; see the report"
    known = [r.criterion for r in records if r.verdict == KNOWN]
    if known:
        yield f"  known failures: {', '.join(known)}"


def _shown(reports: str, label: str) -> str:
    path = Path(reports) / label / "index.md"
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
