"""Which value of the reference, changed in which way, gives the wrong answers: every value of every method.

A value is tried only if the wrong answer depends on it. Functions come from a list; a factor, a number that
is added, a power, a constant and a limit are solved for on one wrong answer. What then gives that answer
has to give all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, groupby, takewhile
from types import CodeType
from typing import Any

import numpy as np

from attest.contract import Array, Form
from attest.diagnosis.answers import close
from attest.diagnosis.hooks import Alter, Hooked, hooked
from attest.diagnosis.nearness import Near
from attest.diagnosis.others import with_others
from attest.diagnosis.recording import Asked
from attest.diagnosis.solved import solved_numbers, solved_shares
from attest.diagnosis.traces import Count, Trace, told
from attest.diagnosis.transforms import Transform, disturbed, kind_of, transforms_of
from attest.diagnosis.wrong import Altered, Met, Wrong, gives, wrong_answers

ANSWERING = (Form.COMPONENT, Form.MODEL)  # what they give depends on their parameters and inputs alone
PROBES = 3  # cases in which an expression may be met
LEFT_AFTER_PROBES = 0.6  # of the calls, for trying the values that were met


def altered(
    telling: Sequence[Trace], seen: frozenset[CodeType], near: Near, count: Count
) -> Iterator[Iterator[Altered]]:
    """Each change of one value after which one wrong answer is given: numbers, functions, other values.

    Where one value goes through several expressions, it is tried once, and each of them may be the place.
    What is likelier and cheaper to find is tried on every value of the nearest methods before the next is
    tried on any, and all of it before methods farther off are looked at.
    """
    found = wrong_answers(telling)
    if not found:
        return
    with ExitStack() as stack:
        for _, places in groupby(hooked(seen, near), key=lambda place: place.level):
            groups = _groups(places, found, stack, count)
            for kind in (_numbers, _functions, _with_others):
                yield chain.from_iterable(
                    kind(group, found, count) for group in takewhile(lambda group: not count.spent, groups)
                )


def _groups(
    places: Iterable[Hooked], found: Sequence[Wrong], stack: ExitStack, count: Count
) -> list[list[Met]]:
    """The expressions that a wrong answer depends on, those together whose change has the same effect."""
    groups: dict[Any, list[Met]] = {}
    least = LEFT_AFTER_PROBES * count.left
    for place in places:
        if count.left < least or count.spent:
            break
        for wrong in found[:PROBES]:
            met, effect = _met(place, wrong, stack, count)
            if met is not None:
                key = effect if effect is not None else id(met)
                groups.setdefault((wrong.step, id(wrong.trace), key), []).append(met)
            if met is not None or place.hook.unfit:
                break
    ordered = sorted(groups.values(), key=lambda group: group[0].spoils)
    return [[met for met in group if not met.place.text.isidentifier()] or group for group in ordered]


def _numbers(group: Sequence[Met], found: Sequence[Wrong], count: Count) -> Iterator[Altered]:
    first = group[0]
    if kind_of(first.value) in ("tensor", "number") and first.wrong.right.dtype.kind == "f":
        others = [wrong for wrong in found if wrong is not first.wrong]
        yield from solved_numbers(group, others, count)


def _functions(group: Sequence[Met], found: Sequence[Wrong], count: Count) -> Iterator[Altered]:
    first = group[0]
    for transform in transforms_of(first.value, first.scope):
        if gives(first, transform.apply):
            for met in group:
                yield _by(transform, met)


def _with_others(group: Sequence[Met], found: Sequence[Wrong], count: Count) -> Iterator[Altered]:
    for met in group:
        for transform in with_others(met.value, met.scope):
            if gives(met, transform.apply):
                yield _by(transform, met)
        if kind_of(met.value) == "tensor" and met.wrong.right.dtype.kind == "f":
            yield from solved_shares(met)


def _by(transform: Transform, met: Met) -> Altered:
    place = met.place
    return Altered(
        place.place, place.text, transform.reads.format(place.text), partial(place.build, transform.apply)
    )


def _met(place: Hooked, wrong: Wrong, stack: ExitStack, count: Count) -> tuple[Met | None, bytes | None]:
    """The expression, and what the answer becomes when it is disturbed; None where nothing depends on it."""
    passed: list[tuple[Any, Mapping[str, Any]]] = []

    def probe(value: Any, scope: Mapping[str, Any]) -> Any:
        passed.append((value, dict(scope)))
        return disturbed(value)

    ask = _asking(place, wrong, stack, count)
    answer = ask(probe)
    if not passed:
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
