"""What is added to a failure: the requirement, a replay, the defect it is like, a file that fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attest.boundary import JudgedImplementation
from attest.judging.property import Property, print_case
from attest.outcomes import Timeout
from attest.records.failure import Failure, Replay, Reproduction
from attest.records.plan import Plan, Target
from attest.records.record import FAIL, Record
from attest.records.verdicts import everything_below
from attest.spec import load_spec

KNOWN = "the failure is declared; the case above is its witness"
NOTHING = "the run was told to write nothing"
LATE = "making one did not end within the time limit of the criterion"
DIED = "the implementation ended the process when it was asked for one"


def described(record: Record, properties: Sequence[Property], target: Target) -> Record:
    """The record of a failure with what is known without asking the implementation again."""
    assert record.failure is not None
    property = _property(record, properties)
    required = (property.check.__doc__ or "").strip().partition("\n")[0]
    replay = _replay(record.failure, record, property, target)
    why = KNOWN if record.verdict != FAIL else DIED
    return _with(record, required=required, replay=replay, reproduction=Reproduction(reason=why))


# By implementation, the criteria that failed in this process: what stands on them is diagnosed briefly.
_failed: dict[str, set[str]] = {}


def completed(
    record: Record, properties: Sequence[Property], impl: JudgedImplementation, target: Target, plan: Plan
) -> Record:
    """The record with the defect it is like and a file that fails. Nothing here can change the verdict."""
    if record.verdict != FAIL:
        return record
    property = _property(record, properties)
    thorough = not _stands_on_a_failure(record)
    _failed.setdefault(record.implementation, set()).add(record.criterion)
    record = _diagnosed(record, property, impl, thorough)
    return _with(record, reproduction=_reproduction(record, property, impl, target, plan))


def _property(record: Record, properties: Sequence[Property]) -> Property:
    assert record.failure is not None
    return next(p for p in properties if p.name == record.failure.property)


def _with(record: Record, **changes: object) -> Record:
    assert record.failure is not None
    return record.but(failure=record.failure.but(**changes))


def _replay(failure: Failure, record: Record, property: Property, target: Target) -> Replay:
    """A case that was not drawn is only a name; its criterion runs as a whole."""
    case = print_case(property.name, failure.case) if property.strategies else ""
    return Replay(
        target.request, record.criterion, case, record.seed, record.profile, target.dtype, target.device
    )


def _stands_on_a_failure(record: Record) -> bool:
    """Whether something else is to be fixed first, as far as this process has seen."""
    below = everything_below(load_spec()).get(record.criterion, set())
    return bool(below & _failed.get(record.implementation, set()))


def _diagnosed(record: Record, property: Property, impl: JudgedImplementation, thorough: bool) -> Record:
    assert record.failure is not None
    try:
        from attest.diagnosis.likeness import diagnose

        found = diagnose(property, impl, record.failure.case, seed=record.seed, thorough=thorough)
        return _with(
            record,
            likenesses=found.notable,
            compared=found.compared,
            edits=found.edits,
            measured=found.measured,
        )
    except (Exception, SystemExit, Timeout):
        return record  # a diagnosis is an extra: the failure stands without it


def _reproduction(
    record: Record, property: Property, impl: JudgedImplementation, target: Target, plan: Plan
) -> Reproduction:
    if not plan.reports:
        return Reproduction(reason=NOTHING)
    try:
        from attest.diagnosis.reproduction import write_reproduction

        return write_reproduction(record, property, impl, target.request, Path(plan.reports))
    except Timeout:
        return Reproduction(reason=LATE)
    except (Exception, SystemExit) as error:
        return Reproduction(reason=f"making one ended with {type(error).__name__}")
