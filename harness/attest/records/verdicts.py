"""Pure functions from records to verdicts of milestones and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter

from attest.order import criterion_order
from attest.records.record import ERROR, FAIL, KNOWN, NOT_CLAIMED, NOT_OFFERED, NOT_RUN, THIN, Record
from attest.spec import Spec

CONFORMS = "conforms"
CONFORMS_WITH_KNOWN = "conforms with known failures"
DOES_NOT_CONFORM = "does not conform"
INCOMPLETE = "incomplete"
NOT_ASKED = frozenset({NOT_OFFERED, NOT_CLAIMED})
BROKEN = frozenset({FAIL, ERROR, KNOWN})


def decides(level: str, verdict: str) -> bool:
    """Whether a criterion counts for its milestone: a must always, a may where it is offered and wrong."""
    return level == "must" or (level == "may" and verdict in BROKEN)


def milestone_verdict(records: Iterable[Record]) -> str:
    """The verdict of one milestone from the records of its criteria. Those not claimed do not count.

    Where no must is claimed nothing conforms: an implementation cannot pass by claiming nothing.
    """
    records = list(records)
    if all(r.verdict == NOT_OFFERED for r in records):
        return NOT_OFFERED
    musts = {r.verdict for r in records if decides(r.level, r.verdict)}
    if musts == {NOT_CLAIMED} or all(r.verdict in NOT_ASKED for r in records):
        return NOT_CLAIMED
    if musts & {FAIL, ERROR}:
        return DOES_NOT_CONFORM
    if musts & {THIN, NOT_RUN, NOT_OFFERED}:
        return INCOMPLETE
    return CONFORMS_WITH_KNOWN if KNOWN in musts else CONFORMS


def with_blocks(spec: Spec, records: Sequence[Record]) -> list[Record]:
    """The records of one implementation, each with the failing criteria it stands on."""
    broken = {r.criterion for r in records if r.verdict in BROKEN}
    below = everything_below(spec)
    return [
        r.but(blocked_by=tuple(sorted(below.get(r.criterion, set()) & broken, key=criterion_order)))
        for r in records
    ]


def everything_below(spec: Spec) -> Mapping[str, set[str]]:
    """Everything each criterion stands on, near and far."""
    direct = {id: criterion.stands_on for id, criterion in spec.by_id.items()}
    reach: dict[str, set[str]] = {}
    for id in TopologicalSorter(direct).static_order():
        reach[id] = set(direct[id]).union(*(reach[below] for below in direct[id]))
    return reach


def exit_code(records: Sequence[Record], *, asked: bool, missing: Sequence[str]) -> int:
    """0: every milestone asked for conforms; 1: not; 3: the harness failed or records are missing.

    When no milestone or criterion was asked for by name, those not offered or not claimed do not count;
    if nothing is offered anywhere, nothing conforms.
    """
    if missing or any(r.internal for r in records):
        return 3
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.implementation, record.milestone), []).append(record)
    verdicts = {key: milestone_verdict(group) for key, group in groups.items()}
    for implementation in {key[0] for key in groups}:
        mine = [v for (i, _), v in verdicts.items() if i == implementation]
        counted = [v for v in mine if asked or v not in NOT_ASKED]
        if not counted or any(v not in (CONFORMS, CONFORMS_WITH_KNOWN) for v in counted):
            return 1
    return 0
