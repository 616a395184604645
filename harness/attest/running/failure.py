"""What is added to a failure: what was required, which defect it is like, a replay, a file that fails."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attest.boundary import JudgedImplementation
from attest.judging.property import Property
from attest.outcomes import Timeout
from attest.records.plan import Plan, Target
from attest.records.record import FAIL, Record
from attest.registry import printable
from attest.spec import Criterion


def complete(
    record: Record, properties: Sequence[Property], impl: JudgedImplementation, target: Target, plan: Plan
) -> Record:
    """The record with its failure filled in. Nothing here can change the verdict."""
    if record.failure is None:
        return record
    property = next(p for p in properties if p.name == record.failure.property)
    required = (property.check.__doc__ or "").strip().partition("\n")[0]
    failure = replace(record.failure, required=required, replay=replay_command(record, target, plan))
    record = record.but(failure=failure)
    if record.verdict != FAIL:
        return record
    likeness = _likeness(property, impl, failure.case, plan)
    record = record.but(failure=replace(failure, looks_like=likeness))
    _write_reproduction(record, property, impl, target, plan)
    return record


def replay_command(record: Record, target: Target, plan: Plan) -> str:
    """A command that fails in the same way when pasted."""
    words = ["pytest", f"--impl={target.request}", "--criterion", record.criterion]
    words += ["--attest-seed", str(plan.seed)]
    if plan.profile != "standard":
        words += ["--attest-profile", plan.profile]
    if target.dtype and "dtype=" not in target.request:
        words += ["--attest-dtype", target.dtype]
    return shlex.join(words)


def failure_text(record: Record, criterion: Criterion) -> str:
    """The failure as a person reads it on a terminal."""
    failure = record.failure
    if failure is None:
        return f"  {printable(record.reason)}"
    rows = [("required", failure.required or criterion.statement), ("seen", failure.seen)]
    rows += [
        (name, text) for name, text in (("case", failure.case), ("looks like", failure.looks_like)) if text
    ]
    rows += [("replay", failure.replay), ("explain", f"attest explain {criterion.id}")]
    return "\n".join(f"  {name:<10} {printable(text)}" for name, text in rows)


def _likeness(property: Property, impl: JudgedImplementation, case: str, plan: Plan) -> str:
    try:
        from attest.diagnosis.likeness import looks_like

        return looks_like(property, impl, case, plan.seed)
    except (Exception, SystemExit, Timeout):
        return ""  # a diagnosis is an extra: the failure stands without it


def _write_reproduction(
    record: Record, property: Property, impl: JudgedImplementation, target: Target, plan: Plan
) -> None:
    if not plan.reports:  # --report none writes nothing
        return
    try:
        from attest.diagnosis.reproduction import write_reproduction

        write_reproduction(record, property, impl, target.request, Path(plan.reports))
    except (Exception, SystemExit, Timeout):
        return
