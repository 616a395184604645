"""Judge one implementation by many criteria, fast: nothing is shrunk, the first must that fails ends it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attest.boundary import JudgedImplementation
from attest.judging.property import Property, load_properties
from attest.outcomes import Timeout
from attest.records.record import ERROR, FAIL, KNOWN, NOT_OFFERED, NOT_RUN, PASS, VERDICTS, Record
from attest.records.verdicts import decides
from attest.running.judging import Settings, judge
from attest.running.timer import cancel_timer, set_processor_timer, set_timer
from attest.spec import load_spec

PROFILES = ("quick", "standard")
SECONDS = {"quick": 90.0, "standard": 300.0}
WAITING = 20.0  # times as long by the clock: many trials run beside each other, or beside other work

# A faulty implementation of a file need not offer everything; a mutated one offered all of it before.
LENIENT = frozenset(VERDICTS) - {FAIL, ERROR}
STRICT = frozenset({PASS, KNOWN, NOT_RUN})


@dataclass(frozen=True)
class Step:
    """One criterion at one profile, and how long it may take."""

    criterion: str
    profile: str
    seconds: float
    cost: float = 0.0  # seconds that it took on an implementation that passes, where that is known
    examples: int = 0  # only the first so many of each property's; 0: all

    @property
    def whole(self) -> bool:
        """Whether the criterion is judged to its end, so that a pass says something."""
        return not self.examples


@dataclass(frozen=True)
class Refusal:
    """A criterion that did not accept the implementation."""

    criterion: str
    level: str
    profile: str
    verdict: str
    reason: str
    property_name: str = ""
    case: str = ""

    @property
    def by_a_must(self) -> bool:
        """Whether the milestone can no longer conform."""
        return decides(self.level, self.verdict)


@dataclass(frozen=True)
class Judgement:
    """What the criteria said of one implementation."""

    refusals: tuple[Refusal, ...] = ()
    judged: tuple[str, ...] = ()  # criteria that ran at the last profile tried
    profile: str = ""  # the last one tried
    seconds: float = 0.0
    harness_failed: tuple[str, ...] = ()  # criteria whose own code broke: they prove nothing

    @property
    def first(self) -> Refusal | None:
        """The first must that refused, or the first refusal of any level."""
        musts = [r for r in self.refusals if r.by_a_must]
        return next(iter((*musts, *self.refusals)), None)


@dataclass
class Progress:
    """What has been found so far."""

    refusals: list[Refusal] = field(default_factory=list)
    harness_failed: list[str] = field(default_factory=list)
    judged: dict[str, list[str]] = field(default_factory=dict)

    def add(self, record: Record, accepted: frozenset[str], *, whole: bool = True) -> None:
        """Sort one record into what it shows. The first examples of a criterion can only refuse."""
        if not whole and record.verdict not in (FAIL, ERROR):
            return
        if record.verdict not in (NOT_OFFERED, NOT_RUN):
            self.judged.setdefault(record.profile, []).append(record.criterion)
        if record.internal:
            self.harness_failed.append(f"{record.criterion}: {record.reason}")
        elif record.verdict not in accepted:
            self.refusals.append(_refusal(record))

    @property
    def over(self) -> bool:
        """Whether a must has refused the implementation, so that no further criterion is needed."""
        return any(r.by_a_must for r in self.refusals)


def judgement(
    implementation: Any,
    steps: Sequence[Step],
    *,
    seed: int = 0,
    accepted: frozenset[str] = LENIENT,
    everything: bool = False,
    any_level: bool = False,
    processor_seconds: float = math.inf,
) -> Judgement:
    """Take the steps in order until a must refuses; `everything` goes on to the end of that profile.

    With `any_level` a should or may ends it too. No step is begun when the process has used so much
    processor time.
    """
    started, found = time.perf_counter(), Progress()
    _one_thread()
    profile = ""
    for step in steps:
        if found.over and (not everything or step.profile != profile):
            break
        if any_level and found.refusals:
            break
        if time.process_time() > processor_seconds:
            break
        profile = step.profile
        if step.criterion not in [r.criterion for r in found.refusals]:
            found.add(judged_once(implementation, step, seed), accepted, whole=step.whole)
    return Judgement(
        tuple(found.refusals),
        tuple(found.judged.get(profile, ())),
        profile,
        round(time.perf_counter() - started, 2),
        tuple(found.harness_failed),
    )


def judged_once(implementation: Any, step: Step, seed: int) -> Record:
    """The record of one criterion, without shrinking and within its time, of the processor."""
    spec = load_spec()
    criterion = spec.by_id[step.criterion]
    settings = Settings(profile=step.profile, seed=seed, spec_version=spec.version)
    impl = JudgedImplementation(implementation)
    set_timer(WAITING * step.seconds)
    set_processor_timer(step.seconds)  # last: it says what struck
    try:
        return judge(criterion, unshrunk(step.criterion, step.examples), impl, settings)
    except Timeout as late:  # it came between two statements of ours
        blank = Record(impl.name, criterion.id, criterion.milestone, criterion.level, profile=step.profile)
        return blank.but(reason=str(late))
    finally:
        cancel_timer()


def unshrunk(criterion: str, examples: int = 0) -> list[Property]:
    """The properties of a criterion, told to stop at the first failing case, or after so many examples."""
    return [replace(p, shrinks=False, most=examples) for p in load_properties()[criterion]]


def ordered(ids: Sequence[str], seconds: Mapping[str, float]) -> list[str]:
    """Musts first, the quickest first: most faults are then caught within a second."""
    by_id = load_spec().by_id
    return sorted(ids, key=lambda id: (by_id[id].level != "must", seconds.get(id, 0.0)))


def _refusal(record: Record) -> Refusal:
    failure = record.failure
    return Refusal(
        record.criterion,
        record.level,
        record.profile,
        record.verdict,
        record.reason,
        failure.property if failure else "",
        failure.case if failure else "",
    )


def _one_thread() -> None:
    """Tiny tensors on several threads are slower, and their sums differ in the last bit."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
