"""Numbers that are solved for: what a value is multiplied by, raised to, held at, or what is added to it.

No list of slips holds every number. One is found on one wrong answer by the secant method, and has to give
all the others. Where it differs from case to case, a size or setting may explain it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attest.contract import Array
from attest.diagnosis.answers import close
from attest.diagnosis.hooks import Alter
from attest.diagnosis.others import named
from attest.diagnosis.sized import FEWEST, explanations
from attest.diagnosis.traces import Count
from attest.diagnosis.transforms import Scope, kind_of, plain, plus, shape_of, times
from attest.diagnosis.wrong import Altered, Met, Wrong, gives
from attest.reference import ops

TRIES = 8
PATIENCE = 3  # tries, after which half of the error should have gone
ASKED = 20  # wrong answers, of which in some the number can be solved for
SOLVED = 8
FARTHEST = 1e6
NOTHING = 1e-9

Act = Callable[[Any, float, Scope], Any]


@dataclass(frozen=True)
class _Family:
    """A way in which a number may act on a value, which number changes nothing, and its other forms."""

    start: Callable[[Any], float]
    forms: tuple[tuple[str, Act], ...]
    by_size: bool = False  # whether the number may differ from case to case
    first: Callable[[float], Sequence[float]] = lambda at: (at * 1.25 if at else 0.1,)


def _acting(act: Act, number: float) -> Alter:
    return lambda value, scope: act(value, number, scope)


def _raised(value: Any, number: float, scope: Scope) -> Any:
    return value**number if value > 0 else value


_FACTOR = _Family(lambda value: 1.0, (("{1} * {0}", lambda value, n, scope: times(value, n)),), by_size=True)
_ADDED = _Family(lambda value: 0.0, (("{0} + {1}", lambda value, n, scope: plus(value, n)),), by_size=True)
_POWER = _Family(lambda value: 1.0, (("{0} to the power {1}", _raised),))
_CONSTANT = _Family(
    float,
    (
        ("{1}", lambda value, n, scope: n),
        ("{0}, at most {1}", lambda value, n, scope: min(value, n)),
        ("{0}, at least {1}", lambda value, n, scope: max(value, n)),
    ),
    # Where the answer hardly depends on so small a number, it does on a larger one.
    first=lambda at: (at * 1.25 if at else 0.1, 1.0),
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
                    yield _altered(met, reads.format(met.place.text, f"{number:.5g}"), alter)
        if family.by_size:
            yield from _by_size(group, family, others, count)


def solved_shares(met: Met) -> Iterator[Altered]:
    """Another tensor of the method, or its square, that is added with a factor that is solved for."""
    shape = shape_of(met.value)
    for name, other in named(met.scope).items():
        if kind_of(other) != "tensor" or other is met.value or not _fits(shape, shape_of(other)):
            continue
        for reads, squared in (("{0} + {1} * " + name, False), ("{0} + {1} * " + name + "^2", True)):
            act = partial(_share_added, name, squared)
            family = _Family(lambda value: 0.0, ((reads, act),))
            number = _solution(met.ask, family, met.wrong, met.value)
            if number is not None:
                text = reads.format(met.place.text, f"{number:.5g}")
                yield _altered(met, text, _acting(act, number))


def _altered(met: Met, after: str, alter: Alter) -> Altered:
    return Altered(met.place.place, met.place.text, after, partial(met.place.build, alter))


def _fits(shape: tuple[int, ...], another: tuple[int, ...]) -> bool:
    """Whether another tensor can be added, and stands for each number of its own or of the row."""
    return shape == another or (shape[-1:] == another and len(shape) > 1)


def _share_added(name: str, squared: bool, value: Any, number: float, scope: Scope) -> Any:
    other = named(scope)[name]
    if not hasattr(value, "value"):
        array = plain(other)
        return value + number * (array * array if squared else array)
    other = ops.mul(other, other) if squared else other
    return ops.add(value, times(other, number))


def _solution(
    ask: Callable[[Alter], Array | None], family: _Family, wrong: Wrong, value: Any
) -> float | None:
    """The number with which the answer is the one that was heard."""
    try:
        at = family.start(value)
    except (TypeError, ValueError):
        return None
    # Beyond zero, a norm or a temperature that is scaled often saturates what follows.
    positive = kind_of(value) == "number" and value > 0 and at > 0
    found = (_secant(ask, family.forms[0][1], wrong, at, number, positive) for number in family.first(at))
    return next((number for number in found if number is not None), None)


def _secant(
    ask: Callable[[Alter], Array | None], act: Act, wrong: Wrong, at: float, number: float, positive: bool
) -> float | None:
    """From two numbers on; given up where the error does not shrink."""
    wanted, before = wrong.seen.astype(np.float64), wrong.right.astype(np.float64)
    left = start = float(np.abs(wanted - before).max())
    hit = False
    for tried in range(TRIES):
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
        if not size or (tried >= PATIENCE and error > start / 2):
            return None
        before, at, left = now, number, error
        number += float(((wanted - now) * slope).sum()) / size
        if positive and number <= 0:
            number = at / 2
        if not np.isfinite(number) or abs(number) > FARTHEST:
            return None
        if number == at:
            return _neat(at) if hit else None
    return _neat(at) if hit else None


def _neat(number: float) -> float:
    """The shortest number so near that rounding may explain the rest."""
    if abs(number) < NOTHING:
        return 0.0
    for digits in (1, 2, 3, 4):
        short = float(f"{number:.{digits}g}")
        if abs(short - number) <= 2e-6 * abs(number):
            return short
    return number


def _by_size(
    group: Sequence[Met], family: _Family, others: Sequence[Wrong], count: Count
) -> Iterator[Altered]:
    """The number solved for in a few answers; what explains it there has to explain it everywhere.

    Each method that the value goes through has other names around it.
    """
    first = group[0]
    reads, act = family.forms[0]
    solved: list[tuple[Wrong, float]] = []
    for wrong in (first.wrong, *others[:ASKED]):
        if count.spent or len(solved) == SOLVED:
            break
        number = _solution(partial(_answer, first, wrong, count), family, wrong, first.value)
        if number is not None:
            solved.append((wrong, number))
    if len(solved) < FEWEST or np.allclose([n for _, n in solved], solved[0][1], rtol=1e-3):
        return
    for met in {met.place.place: met for met in reversed(group)}.values():
        around = [_scope(met, wrong, count) for wrong, _ in solved]
        known = [(scope, number) for scope, (_, number) in zip(around, solved) if scope]
        for text, alter in explanations(known, lambda value, number: act(value, number, {}), reads):
            yield _altered(met, text.format(met.place.text), alter)


def _answer(met: Met, wrong: Wrong, count: Count, alter: Alter) -> Array | None:
    return wrong.all_answers(met.place.build(alter), count).get(wrong.place)


def _scope(met: Met, wrong: Wrong, count: Count) -> Scope:
    """The names around the value where it is first computed for another answer."""
    around: list[Scope] = []

    def noting(value: Any, scope: Scope) -> Any:
        around.append(dict(scope))
        return value

    _answer(met, wrong, count, noting)
    return around[0] if around else {}
