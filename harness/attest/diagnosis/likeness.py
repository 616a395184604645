"""Which known defect a failing implementation behaves like.

The property is run again on the failing case and on others it draws; the calls it makes are put to the
known defects, and the answers compared. Only cases where it differs from the reference count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from types import CodeType
from typing import Any

from attest.boundary import JudgedImplementation, quiet
from attest.contract import OPERATIONS
from attest.diagnosis.coarseness import coarseness
from attest.diagnosis.conditions import condition_of
from attest.diagnosis.executed import executed, may_matter
from attest.diagnosis.explained import explained
from attest.diagnosis.nearness import Rank, nearness
from attest.diagnosis.relations import relations, spread
from attest.diagnosis.spectrum import confined
from attest.diagnosis.traces import Count, Trace, agrees, traces_of
from attest.evidence import collecting
from attest.judging.catalogue import Defect, defects
from attest.judging.property import Property, run_property
from attest.order import milestone_order
from attest.outcomes import NotOffered, NotRun, Timeout, Violation
from attest.records.failure import Basis, Edited, Likeness, Measured
from attest.spec import load_spec

FIRST = 8  # a defect that answers none of these the same is not tried on the rest
CLEAR = 8  # agreeing on this many cases and on all of them, a defect ends the search
SURE = 0.9
POSSIBLE = 0.6
SHOWN = 2
# A limit in calls, not in seconds: the same failure gets the same name on a busy machine.
MOST_CALLS = 6000
FEW_CALLS = 1000


@dataclass(frozen=True)
class Diagnosis:
    """The nearest defects, best first, and how many were really compared."""

    found: tuple[Likeness, ...] = ()
    compared: int = 0
    edits: tuple[Edited, ...] = ()
    measured: Measured = field(default_factory=Measured)

    @property
    def notable(self) -> tuple[Likeness, ...]:
        """The few that a report names: the best where it is sure, else those that are possible."""
        sure = [likeness for likeness in self.found if likeness.share >= SURE]
        if sure:
            best = [likeness for likeness in sure if likeness.share == sure[0].share]
            return tuple(best[:SHOWN])
        return tuple(likeness for likeness in self.found if likeness.share >= POSSIBLE)[:SHOWN]


def diagnose(
    property: Property, impl: JudgedImplementation, case: str, *, seed: int, thorough: bool = True
) -> Diagnosis:
    """The defects that answer as this implementation does, and where none does, the changes of the reference.

    Nothing where each comparison is a training. Unless it is `thorough`, few calls are spent and changes of
    the reference are not tried: a failure that stands on another one is not the first to fix.
    """
    calls = MOST_CALLS if thorough else FEW_CALLS
    if property.trains:
        return Diagnosis()
    candidates = _candidates(property.criterion)
    with quiet(), collecting():
        heard = traces_of(property, impl, case, seed)
        telling = [trace for trace in heard if trace.tells]
        if not telling:
            found = _by_complaint(candidates, property, impl, case)
            return replace(found, measured=Measured(relations=coarseness(heard)))
        seen = executed(telling[:FIRST])
        found = _by_answers(candidates, telling, seen, Count(calls))
        found = replace(found, measured=_measured(heard, impl.implementation))
        if not thorough or any(likeness.agrees == likeness.cases for likeness in found.notable):
            return found
        # Where the clock strikes in what follows, what is known already stays.
        with suppress(Timeout):
            return replace(found, edits=explained(heard, seen, nearness(candidates), Count(calls)))
        return found


def _measured(heard: Sequence[Trace], implementation: Any) -> Measured:
    condition, places = confined(heard, implementation)
    related = (*relations(heard), *coarseness(heard))
    return Measured(condition_of(heard) or condition, related, spread(heard), places)


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


def _by_answers(
    candidates: Sequence[tuple[Rank, Defect]],
    telling: Sequence[Trace],
    seen: frozenset[CodeType],
    count: Count,
) -> Diagnosis:
    """Stops after all defects of the rank in which one agrees clearly, or when the calls are spent."""
    found: list[tuple[float, Rank, Likeness]] = []
    clear: Rank | None = None
    compared = 0
    for rank, defect in candidates:
        if (clear is not None and rank > clear) or count.spent:
            break
        if not may_matter(defect.piece, seen):
            continue
        compared += 1
        likeness = _likeness(defect, telling, count)
        if likeness is None:
            continue
        found.append((-likeness.share, rank, likeness))
        if clear is None and likeness.agrees == likeness.cases >= CLEAR and likeness.confidence == "high":
            clear = rank
    found.sort(key=lambda entry: (entry[0], entry[2].confidence != "high", entry[1], entry[2].defect))
    return Diagnosis(tuple(likeness for _, _, likeness in found), compared)


def _likeness(defect: Defect, telling: Sequence[Trace], count: Count) -> Likeness | None:
    """How often a defect answers as the implementation does; None where it never does in the first cases."""
    defective = defect.build()
    agreeing = [trace for trace in telling[:FIRST] if agrees(trace, defective, count)]
    if not agreeing:
        return None
    agreeing += [trace for trace in telling[FIRST:] if agrees(trace, defective, count)]
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
    if a.wanted is not None and b.wanted is not None and not _near(a.seen - a.wanted, b.seen - b.wanted):
        return False  # where little is wrong, all that is nearly right looks alike
    return places and _near(a.seen, b.seen) and _near(a.wanted, b.wanted)


def _near(one: float | None, other: float | None) -> bool:
    """Equal to three digits; two numbers that are not finite count as equal."""
    if one is None or other is None:
        return one is other
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.isfinite(one) == math.isfinite(other)
    return math.isclose(one, other, rel_tol=1e-3)
