"""One pytest item per criterion and implementation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from attest.boundary import JudgedImplementation
from attest.records.plan import Plan, Target
from attest.records.record import ERROR, FAIL, NOT_OFFERED, NOT_RUN, Record
from attest.registry import BrokenPlugin, load, parse_request, sentence
from attest.running.failure import complete, failure_text
from attest.running.judging import Settings, judge
from attest.running.timer import cancel_timer, set_timer
from attest.spec import Criterion, Spec
from attest.trained.training import use_directory

PROPERTY = "attest"
SECONDS = {"quick": 90.0, "standard": 300.0, "deep": 1800.0}
TRAINING_SECONDS = 900.0
COMPILING = 4.0  # how much longer a compiled implementation may take: its compiler does most of the work


class NotConforming(Exception):
    """Carries the text pytest shows for an item that did not pass."""


class CriteriaFile(pytest.File):
    """Collects the criteria of a plan."""

    plan: Plan
    spec: Spec

    def collect(self) -> Iterator[CriterionItem]:
        """Implementation by implementation; criteria that train what others use come first."""
        ahead = _judged_first(self.plan)
        order = sorted(self.plan.criteria, key=lambda id: id not in ahead)
        for target in self.plan.targets:
            for id in order:
                item = CriterionItem.from_parent(self, name=f"{id}[{target.label}]")
                item.prepare(self.spec.by_id[id], target, self.plan, self.spec)
                yield item


def _judged_first(plan: Plan) -> set[str]:
    """Loads the criteria before the clock of the first one starts; what cannot be loaded fails there."""
    with suppress(Exception):
        return {id for id, found in plan.properties().items() if any(p.first for p in found)}
    return set()


class CriterionItem(pytest.Item):
    """Judges one criterion; its record travels as one JSON string."""

    criterion: Criterion
    target: Target
    plan: Plan
    version: str

    def prepare(self, criterion: Criterion, target: Target, plan: Plan, spec: Spec) -> None:
        """Set what the item judges and its time limit."""
        self.criterion, self.target, self.plan, self.version = criterion, target, plan, spec.version
        trains = "trainer" in criterion.needs
        self.seconds = plan.seconds or (TRAINING_SECONDS if trains else SECONDS[plan.profile])
        self.add_marker(pytest.mark.timeout(self.seconds))

    def runtest(self) -> None:
        """Judge, attach the record, and raise unless it passed."""
        use_directory(self.plan.shared)
        record = self._judge()
        record = record.but(implementation=self.target.label)
        self.user_properties.append((PROPERTY, record.to_json()))
        if record.verdict in (NOT_OFFERED, NOT_RUN):
            pytest.skip(f"{record.verdict}: {record.reason}")
        if record.verdict in (FAIL, ERROR):
            raise NotConforming(failure_text(record, self.criterion))

    def _judge(self) -> Record:
        blank = Record(self.target.label, self.criterion.id, self.criterion.milestone, self.criterion.level)
        blank = blank.but(
            text_hash=self.criterion.text_hash, spec_version=self.version, profile=self.plan.profile
        )
        try:
            implementation = _implementation(self.target)
        except BrokenPlugin as error:
            return blank.but(reason=str(error))
        impl = _judged(implementation, self.target)
        if impl.compiled and self.plan.seconds is None:
            cancel_timer()
            set_timer(COMPILING * self.seconds, self.name)
        settings = Settings(
            profile=self.plan.profile,
            seed=self.plan.seed,
            spec_version=self.version,
            case=self.plan.case,
        )
        try:
            properties = self.plan.properties().get(self.criterion.id, [])
        except Exception as error:
            return blank.but(reason=f"the criteria cannot be loaded ({sentence(error)})", internal=True)
        record = judge(self.criterion, properties, impl, settings)
        return complete(record, properties, impl, self.target, self.plan)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """The failure as a person reads it; no traceback of ours."""
        if isinstance(excinfo.value, NotConforming):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def add_report_section(self, when: str, key: str, content: str) -> None:
        """No logs beside a failure: torch.compile alone writes thousands of lines."""
        if key != "log":
            super().add_report_section(when, key, content)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Shown as the heading of a failure."""
        return self.path, None, f"{self.criterion.id} {self.criterion.title} [{self.target.label}]"


_shared: dict[Target, JudgedImplementation] = {}


def _judged(implementation: Any, target: Target) -> JudgedImplementation:
    """An implementation per criterion; one for all where every new component would be compiled again."""
    if target in _shared:
        return _shared[target]
    impl = JudgedImplementation(implementation, dtype=target.dtype, device=target.device)
    if impl.policy.one_config:
        _shared[target] = impl
    return impl


@cache
def _implementation(target: Target) -> Any:
    if target.broken:
        raise BrokenPlugin(target.broken)
    implementations = load(parse_request(target.request))
    _limit_threads()
    for implementation in implementations:
        if implementation.name == target.name:
            return implementation
    raise BrokenPlugin(
        f"{target.request}: no longer offers {target.name!r}; its list changed between two imports"
    )


def _limit_threads() -> None:
    """Tiny tensors on several threads are slower, and their sums differ in the last bit."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
