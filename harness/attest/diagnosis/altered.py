"""Which value of the reference, changed in which way, gives the wrong answers: every value of every method.

A value is tried only if the wrong answer depends on it. Functions come from a list; a factor, a number that
is added, a power, a constant and a limit are solved for on one wrong answer. What then gives that answer
has to give all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from attest.contract import Array, Form
from attest.diagnosis.answers import close
from attest.diagnosis.hooks import Alter, Hooked, hooked
from attest.diagnosis.nearness import Near
from attest.diagnosis.recording import Asked
from attest.diagnosis.solved import solved_numbers
from attest.diagnosis.traces import Count, Trace, told
from attest.diagnosis.transforms import disturbed, kind_of, transforms_of, with_others
from attest.diagnosis.wrong import Altered, Met, Wrong, gives, wrong_answers

ANSWERING = (Form.COMPONENT, Form.MODEL)  # what they give depends on their parameters and inputs alone
PROBES = 3  # cases in which an expression may be met
LEFT_AFTER_PROBES = 0.6  # of the calls, for trying the values that were met

def altered(
    telling: Sequence[Trace], seen: frozenset[CodeType], near: Near, count: Count
) -> Iterator[Altered]:
    """Each change of one value after which one wrong answer is given.

    Where one value goes through several expressions, it is tried once, and each of them may be the place.
    """
    found = wrong_answers(telling)
    if not found:
        return
    groups: dict[Any, list[Met]] = {}
    with ExitStack() as stack:
        for place in hooked(seen, near):
            if count.left < LEFT_AFTER_PROBES * count.most:
                break
            for wrong in found[:PROBES]:
                met, effect = _met(place, wrong, stack, count)
                if met is not None:
                    key = effect if effect is not None else id(met)
                    groups.setdefault((wrong.step, id(wrong.trace), key), []).append(met)
                    break
        for group in sorted(groups.values(), key=lambda group: group[0].spoils):
            if count.spent:
                return
            computed = [met for met in group if not met.place.text.isidentifier()] or group
            yield from _changes_of(computed, found, count)


def _changes_of(group: Sequence[Met], found: Sequence[Wrong], count: Count) -> Iterator[Altered]:
    first = group[0]
    for transform in transforms_of(first.value, first.scope):
        if gives(first, transform.apply):
            for met in group:
                build = partial(met.place.build, transform.apply)
                yield Altered(met.place.place, met.place.text, transform.reads.format(met.place.text), build)
    for met in group:
        for transform in with_others(met.value, met.scope):
            build = partial(met.place.build, transform.apply)
            if gives(met, transform.apply):
                yield Altered(met.place.place, met.place.text, transform.reads.format(met.place.text), build)
    if kind_of(first.value) in ("tensor", "number") and first.wrong.right.dtype.kind == "f":
        others = [wrong for wrong in found if wrong is not first.wrong]
        yield from solved_numbers(group, others, count)


def _met(place: Hooked, wrong: Wrong, stack: ExitStack, count: Count) -> tuple[Met | None, bytes | None]:
    """The expression, and what the answer becomes when it is disturbed; None where nothing depends on it."""
    passed: list[tuple[Any, Mapping[str, Any]]] = []

    def probe(value: Any, scope: Mapping[str, Any]) -> Any:
        passed.append((value, dict(scope)))
        return disturbed(value)

    ask = _asking(place, wrong, stack, count)
    answer = ask(probe)
    if not passed or not kind_of(passed[0][0]):
        return None, None
    other = answer.get(wrong.place)
    if other is not None and other.shape == wrong.right.shape and close(other, wrong.right):
        return None, None
    value, scope = passed[0]
    seen, right = (told(wrong.trace.steps, wrong.step, v.values) for v in wrong.answers)
    kept = [at for at in right if at in seen and at in answer and close(seen[at], right[at])]
    spoils = sum(not close(answer[at], right[at]) for at in kept)
    effect = None if other is None else kind_of(value).encode() + _rounded(other).tobytes()
    return Met(place, wrong, value, scope, lambda alter: ask(alter).get(wrong.place), spoils), effect


def _rounded(array: Array) -> Array:
    return np.round(array, 9) if array.dtype.kind == "f" else array


def _asking(
    place: Hooked, wrong: Wrong, stack: ExitStack, count: Count
) -> Callable[[Alter], Mapping[str, Array]]:
    """What the wrong step gives with the value changed.

    A component that only answers is built once, unless the value is met while it is built.
    """
    steps, k = wrong.trace.steps, wrong.step
    met_before = False

    def note(value: Any, scope: Mapping[str, Any]) -> Any:
        nonlocal met_before
        met_before = True
        return value

    asked = Asked(place.build(note), stack)
    with np.errstate(all="ignore"):
        for number, step in enumerate(steps[:k]):
            asked.answer(number, step)
    count.left -= sum(wrong.trace.cost(number) for number in range(k))
    once = wrong.trace.form(k) in ANSWERING and steps[k].method in ("__call__", "gradients")

    def ask(alter: Alter) -> Mapping[str, Array]:
        nonlocal once
        if once and not met_before:
            count.left -= wrong.trace.cost(k)
            met_now = False

            def noting(value: Any, scope: Mapping[str, Any]) -> Any:
                nonlocal met_now
                met_now = True
                return alter(value, scope)

            place.hook.alter = noting
            with np.errstate(all="ignore"):
                found = told(steps, k, asked.answer(k, steps[k]).values)
            if met_now:
                return found
            once = False  # what it gave in the first call is kept by the component
        return wrong.all_answers(place.build(alter), count)

    return ask
