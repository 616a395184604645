"""What of the reference runs in every wrong answer and in no right one.

A line that runs where answers are right is not where they go wrong, as long as the fault does not depend on
the numbers. Where a case has no right answers beside it, some are made: the case is asked again with one
setting at its default, or without one argument.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import attest.reference
from attest.contract import OPERATIONS, Config
from attest.contract.config import RULES as RULES_OF_CONFIG
from attest.contract.config import default_of
from attest.contract.parameters import shapes
from attest.diagnosis.answers import close
from attest.diagnosis.edits import RULES, editable
from attest.diagnosis.executed import code_of
from attest.diagnosis.recording import Answer, Ref, Step, answers
from attest.diagnosis.traces import Trace, config_of, operation_of_step
from attest.records.failure import Condition, Confined
from attest.reference.implementation import ReferenceImplementation

FEWEST = 4  # wrong answers, and right ones
CASES = 4  # that are asked again with a setting at its default
LOOKED_AT = 12  # wrong cases and right ones: more of them change little
PLACES = 3  # methods; more of them say nothing
OPTIONAL = ("mask", "memory_mask", "positions", "segments", "causal")
HOME = str(Path(attest.reference.__file__).parent)
KEPT = frozenset({"dtype", "device", "seed", "options", "max_len", "d_model", "d_ff"})  # a size is no choice

Line = tuple[CodeType, int]


@dataclass(frozen=True)
class Ran:
    """The lines of the reference that one answer takes, what it was asked by, and whether it was wrong."""

    asked: str
    lines: frozenset[Line]
    wrong: bool


@dataclass(frozen=True)
class Healed:
    """A setting without which a case is right, and what then runs."""

    name: str
    default: Any
    ran: tuple[Ran, ...]


def confined(heard: Sequence[Trace], implementation: Any) -> tuple[Condition | None, Confined | None]:
    """The setting without which the answers are right, and the methods that only wrong answers run."""
    telling = [trace for trace in sorted(heard, key=lambda trace: len(trace.steps)) if trace.tells]
    if any(trace.steps[k].raised for trace in telling for k in trace.wrong):
        return None, None
    healed = _healed(telling[:CASES], implementation)
    if not healed:
        right = [trace for trace in heard if not trace.tells]
        ran = [
            one for trace in [*telling[:LOOKED_AT], *right[:LOOKED_AT]] for one in _ran(trace.steps, trace)
        ]
        return None, _confined(ran, FEWEST)
    count, default = len(healed), healed[0].default
    test = f"with {healed[0].name}" if default is None else f"{healed[0].name} other than {default!r}"
    condition = Condition((healed[0].name,), test, count, count)
    # Other cases may be right by chance: with a single key every score gives the same weight.
    ran = [one for trace in telling[:CASES] for one in _ran(trace.steps, trace) if one.wrong]
    ran += [one for case in healed for one in case.ran]
    return condition, _confined(ran, len(healed))


def _confined(ran: Sequence[Ran], fewest: int) -> Confined | None:
    wrong = [one for one in ran if one.wrong]
    asked = {one.asked for one in wrong}
    right = [one for one in ran if not one.wrong and one.asked in asked]
    if min(len(wrong), len(right)) < fewest:
        return None
    elsewhere: set[Line] = set().union(*(one.lines for one in right))
    common = set.intersection(*(set(one.lines) for one in wrong))
    known = _methods()
    suspects = {code for code, _ in common - elsewhere if code in known}
    # A method that right answers do not enter at all lies deeper than the branch that leads to it.
    entered = {code for code, _ in elsewhere}
    suspects = {code for code in suspects if code not in entered} or suspects
    places = tuple(sorted({known[code] for code in suspects}))
    if not places or len(places) > PLACES:
        return None
    return Confined(places, len(wrong), len(right))


@cache
def _methods() -> Mapping[CodeType, str]:
    """The methods of the reference by their code."""
    return {
        code: f"{kind.__name__}.{name}"
        for kind in editable()
        if kind not in RULES
        for name, value in vars(kind).items()
        if (code := code_of(value)) is not None
    }


def _ran(steps: Sequence[Step], trace: Trace) -> Iterator[Ran]:
    """Of each compared answer of a case."""
    for k, lines in _lines(steps):
        if k in trace.compared and not steps[k].raised:
            yield Ran(_asked(steps, k), lines, k in trace.wrong)


def _asked(steps: Sequence[Step], k: int) -> str:
    return f"{operation_of_step(steps, k)}.{steps[k].method}"


def _lines(steps: Sequence[Step]) -> Iterator[tuple[int, frozenset[Line]]]:
    """What the reference runs in each step."""
    seen: set[Line] = set()

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            seen.add((frame.f_code, frame.f_lineno))
        return inside

    def entering(frame: FrameType, event: str, argument: Any) -> Any:
        return inside if frame.f_code.co_filename.startswith(HOME) else None

    before = sys.gettrace()
    asked = answers(steps, ReferenceImplementation())
    while True:
        sys.settrace(entering)
        try:
            with np.errstate(all="ignore"):
                number, _ = next(asked)
        except StopIteration:
            return
        finally:
            sys.settrace(before)
        yield number, frozenset(seen)
        seen.clear()


def _healed(telling: Sequence[Trace], implementation: Any) -> list[Healed]:
    """One setting without which each of these cases that has it is right, and two of them do."""
    names = dict.fromkeys(name for trace in telling for name in _chosen(trace))
    found: list[Healed] = []
    for name in reversed(names):
        cases = [trace for trace in telling if name in _chosen(trace)]
        if len(cases) < 2 or len(cases) < len(telling):
            continue
        healed = []
        for trace in cases:
            one = _without(trace, name, implementation)
            if one is None:
                break
            healed.append(one)
        if len(healed) == len(cases):
            found = healed
            break
    return found


def _chosen(trace: Trace) -> dict[str, Any]:
    """What was chosen in a case, with what stands for nothing: settings in their order, then arguments."""
    found: dict[str, Any] = {}
    for k in sorted(trace.wrong):
        config, record = config_of(trace.steps, k), OPERATIONS.get(operation_of_step(trace.steps, k))
        if config is not None and record is not None:
            for name in RULES_OF_CONFIG:
                if name in record.reads and name not in KEPT and _is_choice(config, name):
                    found[name] = default_of(name)
        for name in OPTIONAL:
            if trace.steps[k].kwargs.get(name) is not None and trace.steps[k].kwargs[name] is not False:
                found[name] = False if name == "causal" else None
    return found


def _is_choice(config: Config, name: str) -> bool:
    value, default = getattr(config, name), default_of(name)
    word = default is None or isinstance(default, bool | str) or name.endswith("fraction")
    return word and value != default


def _without(trace: Trace, name: str, implementation: Any) -> Healed | None:
    """The case again without the setting: right now, or None."""
    default = _chosen(trace)[name]
    try:
        steps = [_reset(trace.steps, k, name, default) for k in range(len(trace.steps))]
    except (ValueError, KeyError, TypeError):
        return None
    with np.errstate(all="ignore"):
        right, mine = (dict(answers(steps, one)) for one in (ReferenceImplementation(), implementation))
    if not all(_agree(mine[k], right[k]) for k in trace.compared):
        return None
    heard = Trace(steps, trace.compared, right, frozenset())
    return Healed(name, default, tuple(_ran(steps, heard)))


def _agree(mine: Answer, right: Answer) -> bool:
    if mine.raised or right.raised or mine.values.keys() != right.values.keys():
        return False
    return all(close(mine.values[place], right.values[place]) for place in right.values)


def _reset(steps: Sequence[Step], k: int, name: str, default: Any) -> Step:
    """The same step with the setting at its default, and with those parameters that are then left."""
    step = steps[k]
    args = tuple(_but(a, name, default) if isinstance(a, Config) else a for a in step.args)
    kwargs = {n: default if n == name and n in OPTIONAL else value for n, value in step.kwargs.items()}
    config, operation = config_of(steps, k), operation_of_step(steps, k)
    if step.method == "load" and config is not None and step.target != Ref() and isinstance(args[0], Mapping):
        wanted = shapes(operation, _but(config, name, default))
        given = {n: np.asarray(args[0][n]) for n in wanted}
        if any(given[n].shape != tuple(shape) for n, shape in wanted.items()):
            raise ValueError(name)
        args = (given, *args[1:])
    return replace(step, args=args, kwargs=kwargs, raised="")


def _but(config: Config, name: str, default: Any) -> Config:
    return config.but(**{name: default}) if name in RULES_OF_CONFIG else config
