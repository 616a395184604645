"""Judge one criterion of a plan on one implementation: load, set the clock, judge, complete the failure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

from attest.adapters.triton import repair_if_interpreted
from attest.boundary import JudgedImplementation
from attest.contract import OPERATIONS, Form
from attest.judging.property import load_properties
from attest.machine import interprets_triton
from attest.outcomes import Timeout
from attest.records.plan import Plan, Target
from attest.records.record import Record
from attest.registry import BrokenPlugin, load, printable, sentence
from attest.running.failure import completed, described
from attest.running.judging import Settings, judge
from attest.running.sealing import sealed_implementations
from attest.running.tampering import remember, tampering
from attest.running.timer import cancel_timer, set_timer, struck
from attest.sealed.implementation import SealedImplementation
from attest.spec import Criterion, Spec
from attest.trained.training import use_directory

SECONDS = {"quick": 90.0, "standard": 300.0, "deep": 1800.0}
TRAINING_SECONDS = 900.0
COMPILING = 4.0  # how much longer a compiled implementation may take: its compiler does most of the work
INTERPRETING = 20.0  # a kernel of Triton is interpreted 150 to 2500 times more slowly than plain torch runs
LONGEST = max(COMPILING, INTERPRETING)
LONGEST_TEXT = 4000  # of what an implementation says in a record
LARGEST_RECORD = 2**23  # characters of JSON; beyond them the pictures are left out


def time_limit(criterion: Criterion, plan: Plan) -> float:
    """Seconds for a criterion: what the run asked for, or what its kind and profile get."""
    trains = any(OPERATIONS[need].form is Form.TRAINER for need in criterion.needs if need in OPERATIONS)
    return plan.seconds or (TRAINING_SECONDS if trains else SECONDS[plan.profile])


def blank_record(criterion: Criterion, target: Target, plan: Plan, spec: Spec) -> Record:
    """The record of a criterion that was not judged: an error, until something better is known."""
    blank = Record(target.label, criterion.id, criterion.milestone, criterion.level)
    return blank.but(
        text_hash=criterion.text_hash, spec_version=spec.version, profile=plan.profile, seed=plan.seed
    )


def judge_criterion(
    criterion: Criterion,
    target: Target,
    plan: Plan,
    spec: Spec,
    *,
    timed: bool = True,
    tell: Callable[..., None] = lambda **said: None,
) -> Record:
    """The record, unless the implementation ends the process. `tell` hears the limit and a first verdict."""
    use_directory(plan.shared)
    blank = blank_record(criterion, target, plan, spec)
    try:
        try:
            if timed:
                set_timer(time_limit(criterion, plan))
            remember()
            return _cleaned(_judged(criterion, target, plan, spec, timed, tell), target)
        finally:
            cancel_timer()  # here, so that what the clock raises meanwhile meets the sentences below
    except BrokenPlugin as error:
        return blank.but(reason=str(error))
    except Timeout as error:
        return blank.but(reason=str(error))
    except KeyboardInterrupt:
        if not timed:  # in a debugger it is the user's
            raise
        return blank.but(reason="the implementation raised KeyboardInterrupt")
    except BaseException as error:
        said = struck() or tampering(error)
        return blank.but(reason=said or f"the harness failed: {sentence(error)}", internal=not said)
    finally:
        cancel_timer()


def _judged(
    criterion: Criterion,
    target: Target,
    plan: Plan,
    spec: Spec,
    timed: bool,
    tell: Callable[..., None],
) -> Record:
    impl = _implementation(target, plan)
    limit = time_limit(criterion, plan)
    if plan.seconds is None:
        limit *= max(COMPILING if impl.compiled else 1.0, INTERPRETING if interprets_triton() else 1.0)
    tell(limit=limit)
    if timed:
        set_timer(limit)
    # What another plugin brings is imported only for its own criteria.
    properties = load_properties().get(criterion.id) or plan.properties().get(criterion.id, [])
    settings = Settings(profile=plan.profile, seed=plan.seed, spec_version=spec.version, case=plan.case)
    # The label names the directory of the report, also where it differs from the implementation's name.
    record = judge(criterion, properties, impl, settings).but(implementation=target.label)
    if struck():
        raise Timeout(struck())
    if record.failure is None:
        return record
    record = described(record, properties, target)
    tell(
        verdict=_cleaned(record, target).to_json()
    )  # it stands, should the implementation end the process now
    return completed(record, properties, impl, target, plan)


def _cleaned(record: Record, target: Target) -> Record:
    """The record as it may go to a terminal and into a report: no control characters, nothing endless."""
    record = record.but(
        implementation=target.label,
        reason=_clean(record.reason),
        failure=_clean(record.failure),
        worst_case=_clean(record.worst_case),
    )
    return record.but(data={}) if len(record.to_json()) > LARGEST_RECORD else record


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        shown = (
            value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]} ... ({len(value)} characters)"
        )
        return printable(shown)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _clean(getattr(value, f.name)) for f in fields(value) if f.init})
    return tuple(_clean(part) for part in value) if isinstance(value, tuple) else value


_kept: dict[Target, JudgedImplementation] = {}


def _implementation(target: Target, plan: Plan) -> JudgedImplementation:
    """An implementation per criterion; one for all where every new component would be compiled again."""
    loaded = _sealed(target, plan) if target.sealed else _loaded(target)
    if target in _kept and _kept[target].implementation is loaded:
        return _kept[target]
    try:
        impl = JudgedImplementation(loaded, dtype=target.dtype, device=target.device)
    except Exception as error:
        raise BrokenPlugin(f"{target.name}: its declarations cannot be read ({sentence(error)})") from None
    if impl.policy.one_config:
        _kept[target] = impl
    return impl


_sealed_processes: dict[Target, SealedImplementation] = {}


def _sealed(target: Target, plan: Plan) -> SealedImplementation:
    """The implementation in its process; in a new one where it has ended or had to be ended."""
    if target.broken:
        raise BrokenPlugin(target.broken)
    held = _sealed_processes.get(target)
    if held is None or not held.remote.channel.is_open:
        closed = [path for path in (plan.shared, plan.reports) if path]
        held = _named(sealed_implementations(target.loading(), closed), target)
        _sealed_processes[target] = held
    return held


@cache
def _loaded(target: Target) -> Any:
    if target.broken:
        raise BrokenPlugin(target.broken)
    implementations = load(target.loading())
    repair_if_interpreted()
    _limit_threads()
    return _named(implementations, target)


def _named(implementations: Sequence[Any], target: Target) -> Any:
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
