"""Which value of the reference, changed in which way, gives the wrong answers: every value of every method.

A value is tried only if the wrong answer depends on it. Functions come from a list; a factor, a number that
is added, a power, a constant and a limit are solved for on one wrong answer. What then gives that answer
has to give all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from attest.contract import Array, Form
from attest.diagnosis.answers import close
from attest.diagnosis.conditions import settings_of
from attest.diagnosis.hooks import Alter, Hooked, hooked
from attest.diagnosis.recording import answers
from attest.diagnosis.relations import POWERS
from attest.diagnosis.traces import Count, Trace, told
from attest.diagnosis.transforms import (
    disturbed,
    kind_of,
    plus,
    times,
    transforms_of,
    with_others,
)

# Where the reference has what such an operation adds to the parts of a model.
_NEAREST = {Form.TRAINER: "training", Form.OPTIMIZER: "training", Form.GENERATOR: "decoding"}
MOST_SPENT_ON_PROBES = 0.4  # of the calls must be left when the values are tried
TRIES = 8
FARTHEST = 1e6
ENOUGH = 400  # numbers in an answer: more of them only take longer
PROBES = 3  # cases in which an expression may be met
FEWEST = 4  # wrong answers with different settings, to explain a factor by one of them


@dataclass(frozen=True)
class Altered:
    """One expression, and the implementation in which it is changed."""

    place: str
    before: str
    after: str
    build: Callable[[], Any]


@dataclass(frozen=True)
class Wrong:
    """One wrong answer of one case."""

    trace: Trace
    step: int
    place: str

    @property
    def seen(self) -> Array:
        """What the implementation said."""
        return told(self.trace.steps, self.step, self.trace.steps[self.step].values)[self.place]

    @property
    def right(self) -> Array:
        """What the reference says."""
        return told(self.trace.steps, self.step, self.trace.right[self.step].values)[self.place]

    def answer(self, implementation: Any, count: Count) -> Array | None:
        """What another implementation says; None where it has no such answer."""
        with np.errstate(all="ignore"):
            for number, answer in answers(self.trace.steps[: self.step + 1], implementation):
                count.left -= self.trace.cost(number)
                if number == self.step:
                    return told(self.trace.steps, self.step, answer.values).get(self.place)
        return None


def wrong_answers(telling: Sequence[Trace]) -> list[Wrong]:
    """Of each case its first wrong answer; the shortest case first, of these that of most numbers."""
    found = [wrong for trace in telling if (wrong := _first(trace)) is not None]
    return sorted(found, key=lambda wrong: (len(wrong.trace.steps), -min(wrong.right.size, ENOUGH)))


def _first(trace: Trace) -> Wrong | None:
    for k in sorted(trace.wrong):
        if trace.steps[k].raised or trace.right[k].raised:
            continue
        mine, right = (told(trace.steps, k, v) for v in (trace.steps[k].values, trace.right[k].values))
        for place in right:
            fits = place in mine and mine[place].shape == right[place].shape and right[place].size
            if fits and np.isfinite(mine[place]).all() and not close(mine[place], right[place]):
                return Wrong(trace, k, place)
    return None


@dataclass(frozen=True)
class _Met:
    """An expression that a wrong answer depends on: a value of it, and the names around it."""

    place: Hooked
    wrong: Wrong
    value: Any
    scope: Mapping[str, Any]


def altered(telling: Sequence[Trace], seen: frozenset[CodeType], count: Count) -> Iterator[Altered]:
    """Each change of one value after which one wrong answer is given.

    Where one value goes through several expressions, it is tried once, and each of them may be the place.
    """
    found = wrong_answers(telling)
    if not found:
        return
    form = found[0].trace.form(found[0].step)
    groups: dict[Any, list[_Met]] = {}
    for place in hooked(seen, _NEAREST.get(form, "parts")):
        if count.left < MOST_SPENT_ON_PROBES * count.most:
            break
        for wrong in found[:PROBES]:
            met, effect = _met(place, wrong, count)
            if met is not None:
                key = effect if effect is not None else id(met)
                groups.setdefault((wrong.step, id(wrong.trace), key), []).append(met)
                break
    for group in groups.values():
        if count.spent:
            return
        computed = [met for met in group if not met.place.text.isidentifier()] or group
        yield from _changes_of(computed, found, count)


def _changes_of(group: Sequence[_Met], found: Sequence[Wrong], count: Count) -> Iterator[Altered]:
    first = group[0]
    for transform in transforms_of(first.value, first.scope):
        if _gives(first.wrong, first.place.build(transform.apply), count):
            for met in group:
                build = partial(met.place.build, transform.apply)
                yield Altered(met.place.place, met.place.text, transform.reads.format(met.place.text), build)
    for met in group:
        for transform in with_others(met.value, met.scope):
            build = partial(met.place.build, transform.apply)
            if _gives(met.wrong, build(), count):
                yield Altered(met.place.place, met.place.text, transform.reads.format(met.place.text), build)
    if kind_of(first.value) in ("tensor", "number") and first.wrong.right.dtype.kind == "f":
        others = [first.wrong, *(wrong for wrong in found if wrong is not first.wrong)]
        places = [met.place for met in group]
        yield from _solved(places, others, first.value, count)


def _met(place: Hooked, wrong: Wrong, count: Count) -> tuple[_Met | None, bytes | None]:
    """The expression, and what the answer becomes when it is disturbed; None where nothing depends on it."""
    passed: list[tuple[Any, Mapping[str, Any]]] = []

    def probe(value: Any, scope: Mapping[str, Any]) -> Any:
        passed.append((value, dict(scope)))
        return disturbed(value)

    other = wrong.answer(place.build(probe), count)
    if not passed or not kind_of(passed[0][0]):
        return None, None
    if other is not None and other.shape == wrong.right.shape and close(other, wrong.right):
        return None, None
    value, scope = passed[0]
    effect = None if other is None else kind_of(value).encode() + np.round(other, 9).tobytes()
    return _Met(place, wrong, value, scope), effect


def _gives(wrong: Wrong, implementation: Any, count: Count) -> bool:
    answer = wrong.answer(implementation, count)
    return answer is not None and close(answer, wrong.seen)


def _solved(places: Sequence[Hooked], found: Sequence[Wrong], value: Any, count: Count) -> Iterator[Altered]:
    """One number that is found from the first wrong answer, in each way in which it may act."""
    place = places[0]
    for family in _FAMILIES[kind_of(value)]:
        number = _solution(place, family, found[0], value, count)
        if number is None:
            continue
        for reads, act in family.forms:
            alter = _acting(act, number)
            if act is family.forms[0][1] or _gives(found[0], place.build(alter), count):
                for one in places:
                    text = reads.format(one.text, f"{number:.5g}")
                    yield Altered(one.place, one.text, text, partial(one.build, alter))
        if family.named:
            yield from _by_a_setting(places, family, found, number, value, count)


Act = Callable[[Any, float], Any]


@dataclass(frozen=True)
class _Family:
    """A way in which a number may act on a value, which number changes nothing, and its other forms."""

    start: Callable[[Any], float]
    forms: tuple[tuple[str, Act], ...]
    named: bool = False


def _acting(act: Act, number: float) -> Alter:
    return lambda value, scope: act(value, number)


_FACTOR = _Family(lambda value: 1.0, (("{1} * {0}", times),), named=True)
_ADDED = _Family(lambda value: 0.0, (("{0} + {1}", plus),))
_POWER = _Family(lambda value: 1.0, (("{0} to the power {1}", lambda value, number: value**number),))
_CONSTANT = _Family(
    float,
    (
        ("{1}", lambda value, number: number),
        ("{0}, at most {1}", min),
        ("{0}, at least {1}", max),
    ),
)
_FAMILIES = {"tensor": (_FACTOR, _ADDED), "number": (_FACTOR, _ADDED, _POWER, _CONSTANT)}


def _solution(place: Hooked, family: _Family, wrong: Wrong, value: Any, count: Count) -> float | None:
    """The number with which the answer is the one that was heard, by the secant method."""
    act = family.forms[0][1]
    try:
        at = family.start(value)
    except (TypeError, ValueError):
        return None
    wanted, before = wrong.seen.astype(np.float64), wrong.right.astype(np.float64)
    left = float(np.abs(wanted - before).max())
    number = at * 1.25 if at else 0.1
    hit = False
    for _ in range(TRIES):
        now = wrong.answer(place.build(_acting(act, number)), count)
        if now is None or now.shape != wanted.shape or not np.isfinite(now).all():
            return None
        now = now.astype(np.float64)
        if not hit and close(now.astype(wrong.seen.dtype), wrong.seen):
            hit = True
        error = float(np.abs(wanted - now).max())
        slope = (now - before) / (number - at)
        size = float((slope * slope).sum())
        if hit and (error >= left or not error or not size):
            return _neat(number if error <= left else at)
        if not size:
            return None
        before, at, left = now, number, error
        number += float(((wanted - now) * slope).sum()) / size
        if not np.isfinite(number) or abs(number) > FARTHEST:
            return None
        if number == at:
            return _neat(at) if hit else None
    return _neat(at) if hit else None


def _neat(number: float) -> float:
    """The shortest number so near that rounding may explain the rest."""
    for digits in (1, 2, 3, 4):
        short = float(f"{number:.{digits}g}")
        if abs(short - number) <= 2e-6 * abs(number):
            return short
    return number


def _by_a_setting(
    places: Sequence[Hooked], family: _Family, found: Sequence[Wrong], first: float, value: Any, count: Count
) -> Iterator[Altered]:
    """A factor that differs from case to case, where the power of a setting explains it in each of a few."""
    place = places[0]
    solved = [(found[0], first)]
    for wrong in found[1:]:
        if len(solved) == FEWEST or count.spent:
            break
        number = _solution(place, family, wrong, value, count)
        if number is None:
            return
        solved.append((wrong, number))
    if len(solved) < FEWEST or np.allclose([n for _, n in solved], first, rtol=1e-3):
        return
    settings = [settings_of(wrong.trace.steps, wrong.step) for wrong, _ in solved]
    for name in sorted(set.intersection(*(set(s) for s in settings))):
        values = [s[name] for s in settings]
        if not all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values):
            continue
        for power, text in POWERS.items():
            if np.allclose([n for _, n in solved], np.array(values, float) ** power, rtol=1e-3):
                for one in places:
                    after = f"{text.format(name)} * {one.text}"
                    yield Altered(one.place, one.text, after, partial(one.build, _scaled_by(name, power)))


def _scaled_by(name: str, power: float) -> Alter:
    def alter(value: Any, scope: Mapping[str, Any]) -> Any:
        return times(value, float(getattr(scope["self"].config, name)) ** power)

    return alter
