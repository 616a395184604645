"""Under what settings the answers are wrong: one test that all wrong answers pass and few right ones do.

That the wrong answers pass it by chance must be unlikely: a test that a share f of all answers pass is
passed by n wrong ones with probability f^n, and as many tests are tried as there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Any

import numpy as np

from attest.contract import OPERATIONS
from attest.diagnosis.recording import Step
from attest.diagnosis.traces import Trace, config_of, operation_of_step
from attest.records.failure import Condition

LIKELY = 0.01  # the most that chance may explain
FEWEST = 4  # wrong answers, and right ones
MOST = 0.75  # of all answers: what nearly every call passes says little
VALUES = 6  # a setting with more values is compared as a number or not at all
BESIDE = frozenset({"dtype", "device", "seed", "options"})

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Answered:
    """The settings of one call and whether its answer was wrong."""

    settings: Settings
    wrong: bool


@dataclass(frozen=True)
class Test:
    """Something that a call is or is not."""

    settings: tuple[str, ...]
    text: str
    holds: Callable[[Settings], bool]
    splits: bool = False  # it may hold for right answers too, which may be right by chance


def condition_of(traces: Sequence[Trace]) -> Condition | None:
    """The narrowest test that every wrong answer passes; None where chance may explain each of them."""
    answered = _distinct(Answered(s, wrong) for trace in traces for s, wrong in _answers(trace))
    asked = {one.settings["method"] for one in answered if one.wrong}
    answered = [one for one in answered if one.settings["method"] in asked]
    wrong = [a.settings for a in answered if a.wrong]
    right = [a.settings for a in answered if not a.wrong]
    if len(wrong) < FEWEST or len(right) < FEWEST:
        return None
    tried = list(_tests([*wrong, *right]))
    best: tuple[tuple[float, int], Condition] | None = None
    for test in tried:
        passing = sum(test.holds(s) for s in right)
        share = (len(wrong) + passing) / len(answered)
        if (passing and not test.splits) or share > MOST or share ** len(wrong) * len(tried) > LIKELY:
            continue
        if (best is None or (share, len(test.settings)) < best[0]) and all(test.holds(s) for s in wrong):
            found = Condition(test.settings, test.text, len(wrong), len(right), passing)
            best = (share, len(test.settings)), found
    return best[1] if best else None


def _distinct(answered: Iterator[Answered]) -> list[Answered]:
    """Each call once: the same one drawn again says nothing more."""
    found: dict[str, Answered] = {}
    for one in answered:
        found.setdefault(repr((sorted(one.settings.items(), key=str), one.wrong)), one)
    return list(found.values())


def _answers(trace: Trace) -> Iterator[tuple[Settings, bool]]:
    for k in sorted(trace.compared):
        if not trace.right[k].raised:
            yield settings_of(trace.steps, k), k in trace.wrong


def settings_of(steps: Sequence[Step], k: int) -> dict[str, Any]:
    """What a call was made with: the config, plain arguments, sizes of arrays, whether a mask is there."""
    step, operation, config = steps[k], operation_of_step(steps, k), config_of(steps, k)
    record = OPERATIONS.get(operation)
    found: dict[str, Any] = {
        "method": f"{operation}.{step.method}" if step.target.step is not None else operation
    }
    if config is not None and record is not None:
        found |= {name: getattr(config, name) for name in record.reads - BESIDE}
    ports = list(record.takes) if record is not None else []
    named = {**dict(zip(ports or [f"argument {i}" for i in range(9)], step.args)), **step.kwargs}
    for name, value in named.items():
        if isinstance(value, np.ndarray):
            found |= _sizes(name, value, record)
        elif isinstance(value, Mapping):
            found |= {name: "given"}
        elif value is None or isinstance(value, bool | int | float | str | np.generic):
            found[name] = value.item() if isinstance(value, np.generic) else value
    for name in ports:
        found.setdefault(name, None)
    return found


def _sizes(name: str, value: np.ndarray[Any, Any], record: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    port = record.ports.get(name) if record is not None else None
    words = port.words if port is not None else ()
    if "..." not in words and len(words) == value.ndim:
        found |= {word: size for word, size in zip(words, value.shape) if word.isalpha()}
    elif "..." in words:
        found |= {w: value.shape[-i] for i, w in enumerate(reversed(words[1:]), 1) if i <= value.ndim}
    if value.ndim == 0:
        found[name] = value.item()
    elif value.dtype == bool:
        found[name] = "given"
    return found


def _tests(calls: Sequence[Settings]) -> Iterator[Test]:
    names = sorted({name for call in calls for name in call})
    numbers: dict[str, list[float]] = {}
    for name in names:
        values = {repr(call[name]): call[name] for call in calls if name in call}
        if len(values) < 2:
            continue
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values.values()):
            numbers[name] = sorted(values.values())
        if len(values) <= VALUES:
            yield from (_is(name, value) for value in values.values())
            if len(values) > 2:
                yield from (_is_not(name, value) for value in values.values())
    for name, ordered in numbers.items():
        for low, high in pairwise(ordered):
            yield _above(name, low)
            yield _below(name, high)
    for one, other in permutations((name for name in numbers if _is_size(name)), 2):
        yield _larger(one, other)
        if one < other:
            yield _unequal(one, other)


def _is_size(name: str) -> bool:
    """Lengths of axes can be compared with each other: T with S."""
    return len(name) == 1 and name.isupper()


def _is(name: str, value: Any) -> Test:
    text = f"without {name}" if value is None else f"{name}={value!r}"
    if value == "given":
        text = f"with {name}"
    return Test(
        (name,),
        text,
        lambda s: name in s and s[name] == value and type(s[name]) is type(value),
        not _is_size(name),
    )


def _is_not(name: str, value: Any) -> Test:
    default = value is None
    text = f"with {name}" if default else f"{name} other than {value!r}"
    return Test((name,), text, lambda s: name in s and s[name] != value)


def _above(name: str, low: float) -> Test:
    return Test((name,), f"{name} above {low:g}", lambda s: name in s and s[name] > low, not _is_size(name))


def _below(name: str, high: float) -> Test:
    return Test((name,), f"{name} below {high:g}", lambda s: name in s and s[name] < high, not _is_size(name))


def _larger(one: str, other: str) -> Test:
    return Test((one, other), f"{one} above {other}", lambda s: one in s and other in s and s[one] > s[other])


def _unequal(one: str, other: str) -> Test:
    return Test(
        (one, other), f"{one} other than {other}", lambda s: one in s and other in s and s[one] != s[other]
    )
