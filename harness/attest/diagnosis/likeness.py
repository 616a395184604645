"""Which known defect a failing implementation behaves like.

The property is run again on the failing case and on others it draws; the calls it makes are put to the
known defects, and the answers compared. Only cases where it differs from the reference count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from attest.boundary import Call, JudgedImplementation, Run
from attest.contract import OPERATIONS
from attest.diagnosis.answers import answer, comparable, cost, same_answer
from attest.evidence import collecting
from attest.judging.catalogue import Defect, defects
from attest.judging.property import EXAMPLES, Property, run_property
from attest.order import milestone_order
from attest.outcomes import NotOffered, NotRun, Violation
from attest.records.failure import Basis, Likeness
from attest.reference.implementation import ReferenceImplementation
from attest.spec import load_spec

NEIGHBOURS = 40
STEPS = 4  # of a trainer
FIRST = 8  # a defect that answers none of these the same is not tried on the rest
CLEAR = 8  # agreeing on this many cases and on all of them, a defect ends the search
SURE = 0.9
POSSIBLE = 0.3
SHOWN = 2
# A limit in calls, not in seconds: the same failure gets the same name on a busy machine. 6,000 calls let
# every defect of six milestones answer FIRST cases of one or two calls.
MOST_CALLS = 6000


@dataclass(frozen=True)
class Diagnosis:
    """The nearest defects, best first, and how many were really compared."""

    found: tuple[Likeness, ...] = ()
    compared: int = 0

    @property
    def notable(self) -> tuple[Likeness, ...]:
        """The few that a report names: the best where it is sure, else those that are possible."""
        sure = [likeness for likeness in self.found if likeness.share >= SURE]
        if sure:
            best = [likeness for likeness in sure if likeness.share == sure[0].share]
            return tuple(best[:SHOWN])
        return tuple(likeness for likeness in self.found if likeness.share >= POSSIBLE)[:SHOWN]


@dataclass(frozen=True)
class Trace:
    """The calls of one case that differs from the reference; `by_value` where an answer does, not only an
    exception."""

    calls: Sequence[Call]
    by_value: bool


class Budget:
    """Calls that may still be made."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def spend(self, traces: Sequence[Trace]) -> bool:
        """Whether there is enough left to put these traces to one more defect."""
        self.left -= sum(cost(call) for trace in traces for call in trace.calls)
        return self.left >= 0


def diagnose(
    property: Property, impl: JudgedImplementation, case: str, *, seed: int, calls: int = MOST_CALLS
) -> Diagnosis:
    """The defects that answer as this implementation does. Nothing where each comparison is a training."""
    if property.trains:
        return Diagnosis()
    candidates = _candidates(property.criterion)
    heard = _traces(property, impl, case, seed)
    with collecting():
        telling = [trace for trace in map(_telling, heard) if trace is not None]
        if telling:
            return _by_answers(candidates, telling, Budget(calls))
        return _by_complaint(candidates, property, impl, case)


Rank = tuple[bool, bool, int]


def _candidates(criterion: str) -> list[tuple[Rank, Defect]]:
    """Defects that name the criterion first, then those of its operations, then those of near milestones."""
    milestone = criterion.partition(".")[0]
    own = operations_of(criterion)
    ranked = [
        (_rank(defect, criterion, own), defect)
        for defect in defects().values()
        if milestone_order(defect.milestone) <= milestone_order(milestone)
    ]
    return sorted(ranked, key=lambda pair: pair[0])


def _rank(defect: Defect, criterion: str, own: frozenset[str]) -> Rank:
    shared = any(operations_of(killer) & own for killer in defect.killers)
    return criterion not in defect.killers, not shared, _apart(defect.milestone, criterion.partition(".")[0])


@cache
def _apart(one: str, other: str) -> int:
    """How many milestones lie between two: what a model is made of stands shortly before it."""
    order = [m.id for m in load_spec().milestones]
    return abs(order.index(one) - order.index(other)) if {one, other} <= set(order) else len(order)


@cache
def operations_of(criterion: str) -> frozenset[str]:
    """The operations a criterion needs; none for a criterion of a plugin's own milestone."""
    found = load_spec().by_id.get(criterion)
    return frozenset(need for need in found.needs if need in OPERATIONS) if found else frozenset()


def _reference() -> JudgedImplementation:
    return JudgedImplementation(ReferenceImplementation())


def _traces(property: Property, impl: JudgedImplementation, case: str, seed: int) -> list[list[Call]]:
    traces = []
    if property.strategies:
        traces.append(trace_of(property, impl, case, seed))
        listening = replace(
            property, check=_swallowing(property, traces), effort=_effort(property), shrinks=False
        )
        with collecting():
            run_property(listening, impl, profile="quick", seed=seed + 1)
    else:
        traces.append(trace_of(property, impl, None, seed))
    return [t for t in traces if t]


def _effort(property: Property) -> float:
    """How many calls may be spent: enough for forty cases, fewer where one case takes many calls."""
    return min(1.0, property.effort) * (NEIGHBOURS - 1) / EXAMPLES["quick"]


def _swallowing(property: Property, traces: list[list[Call]]) -> Any:
    def check(impl: JudgedImplementation, **drawn: Any) -> None:
        with _ears(impl) as calls:
            _quietly(lambda: property.check(impl, **drawn))
            _train_on(calls)
        traces.append(calls)

    return check


def trace_of(property: Property, impl: JudgedImplementation, case: str | None, seed: int) -> list[Call]:
    """The calls a property makes on one case."""
    case = case if property.strategies else None
    with collecting(), _ears(impl) as calls:
        _quietly(lambda: run_property(property, impl, profile="quick", seed=seed, witness=case))
        _train_on(calls)
    return calls


def _train_on(calls: Sequence[Call]) -> None:
    """A property stops at the first wrong step; what the next ones do tells trainers apart."""
    for run in [call for call in calls if isinstance(call, Run)]:
        for _ in range(STEPS - len(run.batches)):
            _quietly(lambda run=run: run.trainer.step(run.batches[-1]))


class _ears:
    """Collect the calls that an implementation answers while the body runs."""

    def __init__(self, impl: JudgedImplementation) -> None:
        self.impl = impl

    def __enter__(self) -> list[Call]:
        self.impl.calls = []
        return self.impl.calls

    def __exit__(self, *exception: object) -> None:
        self.impl.calls = None


def _quietly(run: Any) -> None:
    try:
        run()
    except (Violation, NotOffered, NotRun):
        return


def _telling(calls: Sequence[Call]) -> Trace | None:
    """The trace where it differs from the reference, else None."""
    reference = _reference()
    compared = [call for call in calls if comparable(call)]
    wrong = [call for call in compared if not same_answer(answer(reference, call), call)]
    return Trace(compared, any(call.outputs is not None for call in wrong)) if wrong else None


def _by_answers(
    candidates: Sequence[tuple[Rank, Defect]], telling: Sequence[Trace], budget: Budget
) -> Diagnosis:
    """Stops after all defects of the rank in which one agrees clearly, or when the budget is spent."""
    found: list[tuple[float, Rank, Likeness]] = []
    clear: Rank | None = None
    compared = 0
    for rank, defect in candidates:
        if (clear is not None and rank > clear) or not budget.spend(telling[:FIRST]):
            break
        compared += 1
        likeness = _likeness(defect, telling, budget)
        if likeness is None:
            continue
        found.append((-likeness.share, rank, likeness))
        if clear is None and likeness.agrees == likeness.cases >= CLEAR and likeness.confidence == "high":
            clear = rank
    found.sort(key=lambda entry: (entry[0], entry[2].confidence != "high", entry[1], entry[2].defect))
    return Diagnosis(tuple(likeness for _, _, likeness in found), compared)


def _likeness(defect: Defect, telling: Sequence[Trace], budget: Budget) -> Likeness | None:
    """How often a defect answers as the implementation does; None where it never does in the first cases."""
    defective = JudgedImplementation(defect.build())
    agreeing = [trace for trace in telling[:FIRST] if _agrees(defective, trace)]
    if not agreeing:
        return None
    budget.spend(telling[FIRST:])
    agreeing += [trace for trace in telling[FIRST:] if _agrees(defective, trace)]
    basis: Basis = "answers" if any(trace.by_value for trace in agreeing) else "exceptions"
    return Likeness(defect.name, len(agreeing), len(telling), basis)


def _by_complaint(
    candidates: Sequence[tuple[Rank, Defect]], property: Property, impl: JudgedImplementation, case: str
) -> Diagnosis:
    """Where nothing can be compared by value: the defects that fail the same case in the same way."""
    mine = _complaint(property, impl, case)
    named = [defect for _, defect in candidates if property.criterion in defect.killers]
    if mine is None:
        return Diagnosis()
    found = []
    for defect in named:
        theirs = _complaint(property, JudgedImplementation(defect.build()), case)
        if theirs is not None and same_complaint(theirs, mine):
            found.append(Likeness(defect.name, 1, 1, "complaint"))
    return Diagnosis(tuple(sorted(found, key=lambda likeness: likeness.defect)), len(named))


def _complaint(property: Property, impl: JudgedImplementation, case: str) -> Violation | None:
    with collecting():
        try:
            witness = case if property.strategies else None
            run_property(property, impl, profile="quick", seed=0, witness=witness)
        except Violation as violation:
            return violation
        except (NotOffered, NotRun):
            return None
    return None


def same_complaint(one: Violation, other: Violation) -> bool:
    """The same number is as wrong, the same class of exception was raised, or the same was said."""
    if one.raised or other.raised:
        return one.raised == other.raised
    a, b = one.deviation, other.deviation
    if a is None or b is None:
        return one.seen == other.seen
    places = (a.what, a.index) == (b.what, b.index)
    return places and _near(a.seen, b.seen) and _near(a.wanted, b.wanted)


def _near(one: float | None, other: float | None) -> bool:
    """Equal to three digits; two numbers that are not finite count as equal."""
    if one is None or other is None:
        return one is other
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.isfinite(one) == math.isfinite(other)
    return math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-9)


def _agrees(impl: JudgedImplementation, trace: Trace) -> bool:
    return all(same_answer(answer(impl, call), call) for call in trace.calls)
