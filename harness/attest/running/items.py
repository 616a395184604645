"""One pytest item per criterion and implementation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from attest.judging.property import load_properties
from attest.records.plan import Plan, Target
from attest.records.record import ERROR, FAIL, NOT_CLAIMED, NOT_OFFERED, NOT_RUN, Record
from attest.registry import printable
from attest.running.isolation import Isolation
from attest.running.one_criterion import judge_criterion
from attest.spec import Criterion, Spec

PROPERTY = "attest"
LONGEST_SECTION = 4000  # characters of what an implementation printed, beside a failure


class NotConforming(Exception):
    """Carries the text pytest shows for an item that did not pass."""


class CriteriaFile(pytest.File):
    """Collects the criteria of a plan."""

    plan: Plan
    spec: Spec

    def collect(self) -> Iterator[CriterionItem]:
        """Implementation by implementation; criteria that train what others use come first."""
        ahead = _judged_first()
        for target in self.plan.targets:
            for id in sorted(self.plan.waiting(target.label), key=lambda id: id not in ahead):
                item = CriterionItem.from_parent(self, name=f"{id}[{target.label}]")
                item.criterion, item.target = self.spec.by_id[id], target
                item.plan, item.spec = self.plan, self.spec
                yield item


def _judged_first() -> set[str]:
    """The criteria whose properties train what others use.

    Only our own are looked at: the modules that plugins bring are imported where they are judged.
    """
    return {id for id, found in load_properties().items() if any(p.first for p in found)}


class CriterionItem(pytest.Item):
    """Judges one criterion; its record travels as one JSON string."""

    criterion: Criterion
    target: Target
    plan: Plan
    spec: Spec

    def runtest(self) -> None:
        """Judge, attach the record, and raise unless it passed."""
        record = self._judge()
        self.user_properties.append((PROPERTY, record.to_json()))
        if record.verdict in (NOT_OFFERED, NOT_CLAIMED, NOT_RUN):
            pytest.skip(f"{record.verdict}: {printable(record.reason)}")
        if first := _said_before(record):
            raise NotConforming(f"  reason     the same error as at {first}")
        if record.verdict in (FAIL, ERROR):
            from attest.report.document import criterion_row
            from attest.report.failure_text import failure_text

            raise NotConforming(failure_text(criterion_row(self.criterion, record, self.target)))

    def _judge(self) -> Record:
        option = self.config.option
        if option.usepdb or getattr(option, "trace", False):  # a debugger needs the code in this process
            return judge_criterion(self.criterion, self.target, self.plan, self.spec, timed=False)
        return judging_process(self.plan, self.spec, self.target).judge(self.criterion)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """The failure as a person reads it; no traceback of ours."""
        if isinstance(excinfo.value, NotConforming):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def add_report_section(self, when: str, key: str, content: str) -> None:
        """The end of what was printed, and no logs: torch.compile alone writes thousands of lines."""
        if key != "log":
            lines = content[-LONGEST_SECTION:].splitlines()
            super().add_report_section(when, key, "\n".join(printable(line) for line in lines))

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Shown as the heading of a failure."""
        return self.path, None, printable(f"{self.criterion.id} {self.criterion.title} [{self.target.label}]")


_errors: dict[tuple[str, str], str] = {}  # implementation and reason to the first criterion that met it


def _said_before(record: Record) -> str:
    """The criterion that met the same error first: parameters that are not wired stop every criterion."""
    if record.verdict != ERROR:
        return ""
    first = _errors.setdefault((record.implementation, record.reason), record.criterion)
    return "" if first == record.criterion else first


_process: list[Isolation] = []  # the one of this worker


def judging_process(plan: Plan, spec: Spec, target: Target) -> Isolation:
    """The process of this implementation; that of the one before ends, so that no two share anything."""
    if not _process or _process[0].target != target or _process[0].plan != plan:
        end_judging()
        _process.append(Isolation(plan, spec, target))
    return _process[0]


def end_judging() -> None:
    """End the process in which this worker judges."""
    while _process:
        _process.pop().close()
