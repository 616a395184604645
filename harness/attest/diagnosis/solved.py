"""Numbers that are solved for: what a value is multiplied by, raised to, held at, or what is added to it.

No list of slips holds every number. One is found on one wrong answer by the secant method, and has to give
all the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attest.contract import Array
from attest.diagnosis.answers import close
from attest.diagnosis.conditions import settings_of
from attest.diagnosis.hooks import Alter
from attest.diagnosis.relations import POWERS
from attest.diagnosis.traces import Count
from attest.diagnosis.transforms import kind_of, plus, times
from attest.diagnosis.wrong import Altered, Met, Wrong, gives

TRIES = 8
FARTHEST = 1e6
FEWEST = 4  # wrong answers with different settings, to explain a factor by one of them

Act = Callable[[Any, float], Any]


@dataclass(frozen=True)
class _Family:
    """A way in which a number may act on a value, which number changes nothing, and its other forms."""

    start: Callable[[Any], float]
    forms: tuple[tuple[str, Act], ...]
    named: bool = False


def _acting(act: Act, number: float) -> Alter:
    return lambda value, scope: act(value, number)


def _raised(value: Any, number: float) -> Any:
    return value**number if value > 0 else value


_FACTOR = _Family(lambda value: 1.0, (("{1} * {0}", times),), named=True)
_ADDED = _Family(lambda value: 0.0, (("{0} + {1}", plus),))
_POWER = _Family(lambda value: 1.0, (("{0} to the power {1}", _raised),))
_CONSTANT = _Family(
    float,
    (
        ("{1}", lambda value, number: number),
        ("{0}, at most {1}", min),
        ("{0}, at least {1}", max),
    ),
)
_FAMILIES = {"tensor": (_FACTOR, _ADDED), "number": (_FACTOR, _ADDED, _POWER, _CONSTANT)}


def solved_numbers(group: Sequence[Met], others: Sequence[Wrong], count: Count) -> Iterator[Altered]:
    """One number that is found from the first wrong answer, in each way in which it may act."""
    first = group[0]
    for family in _FAMILIES[kind_of(first.value)]:
        number = _solution(first.ask, family, first.wrong, first.value)
        if number is None:
            continue
        for reads, act in family.forms:
            alter = _acting(act, number)
            if act is family.forms[0][1] or gives(first, alter):
                for met in group:
                    text = reads.format(met.place.text, f"{number:.5g}")
                    yield Altered(met.place.place, met.place.text, text, partial(met.place.build, alter))
        if family.named:
            yield from _by_a_setting(group, family, others, number, count)


def _solution(
    ask: Callable[[Alter], Array | None], family: _Family, wrong: Wrong, value: Any
) -> float | None:
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
        now = ask(_acting(act, number))
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
    group: Sequence[Met], family: _Family, others: Sequence[Wrong], number: float, count: Count
) -> Iterator[Altered]:
    """A factor that differs from case to case, where the power of a setting explains it in each of a few."""
    first = group[0]
    solved = [(first.wrong, number)]
    for wrong in others:
        if len(solved) == FEWEST or count.spent:
            break

        def ask(alter: Alter, wrong: Wrong = wrong) -> Array | None:
            return wrong.all_answers(first.place.build(alter), count).get(wrong.place)

        found = _solution(ask, family, wrong, first.value)
        if found is None:
            return
        solved.append((wrong, found))
    if len(solved) < FEWEST or np.allclose([n for _, n in solved], number, rtol=1e-3):
        return
    settings = [settings_of(wrong.trace.steps, wrong.step) for wrong, _ in solved]
    for name in sorted(set.intersection(*(set(s) for s in settings))):
        values = [s[name] for s in settings]
        if not all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values):
            continue
        for power, text in POWERS.items():
            if np.allclose([n for _, n in solved], np.array(values, float) ** power, rtol=1e-3):
                for met in group:
                    after = f"{text.format(name)} * {met.place.text}"
                    build = partial(met.place.build, _scaled_by(name, power))
                    yield Altered(met.place.place, met.place.text, after, build)


def _scaled_by(name: str, power: float) -> Alter:
    def alter(value: Any, scope: Mapping[str, Any]) -> Any:
        return times(value, float(getattr(scope["self"].config, name)) ** power)

    return alter
