"""What one method of the reference gives, times a number that is found from a wrong answer.

No list of slips holds every number. A factor is one number: it is solved for on one answer by the secant
method, and then has to give all the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from attest.contract import Array
from attest.diagnosis.answers import close
from attest.diagnosis.edits import RULES, Edit, editable
from attest.diagnosis.executed import code_of
from attest.diagnosis.recording import answers
from attest.diagnosis.traces import Count, Trace, told
from attest.judging.catalogue import assemble
from attest.reference import ops
from attest.reference.tape import Var

FEWEST = 4  # numbers in the answer: one number is always some factor times another
FIRST = 1.25  # the factor that is tried to see which way the answer moves
TRIES = 6
FARTHEST = 1e4


class Unscalable(Exception):
    """A result that is no number."""


def fitted(telling: Sequence[Trace], seen: frozenset[CodeType], count: Count) -> Iterator[Edit]:
    """Methods with the factor of their result after which one wrong answer is given."""
    found = _wrong_number(telling)
    if found is None:
        return
    trace, k, place = found
    for kind in editable():
        for name, value in vars(kind).items():
            if kind in RULES or not inspect.isfunction(value) or code_of(value) not in seen or count.spent:
                continue
            ask = partial(_answer, trace, k, place, kind, name, count)
            factor = _factor(ask, found)
            if factor is not None:
                piece = scaled(kind, name, factor)
                yield Edit(f"{kind.__name__}.{name}", "its result", f"{factor:.4g} times its result", piece)


def scaled(kind: type[Any], name: str, factor: float) -> type[Any]:
    """The class with the result of one method times a factor."""
    plain = vars(kind)[name]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _times(plain(self, *args, **kwargs), factor)

    return type(kind.__name__, (kind,), {name: method})


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, Var):
        return ops.scale(value, factor)
    if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        return value * factor
    raise Unscalable(type(value).__name__)


def _wrong_number(telling: Sequence[Trace]) -> tuple[Trace, int, str] | None:
    """A wrong answer of several finite numbers, of the shortest case that has one."""
    for trace in sorted(telling, key=lambda trace: len(trace.steps)):
        for k in sorted(trace.wrong):
            mine, right = (told(trace.steps, k, v) for v in (trace.steps[k].values, trace.right[k].values))
            for place in mine.keys() & right.keys():
                pair = mine[place], right[place]
                fits = pair[0].shape == pair[1].shape and pair[0].size >= FEWEST
                numbers = all(x.dtype.kind == "f" and np.isfinite(x).all() for x in pair)
                if fits and numbers and not close(*pair):
                    return trace, k, place
    return None


def _answer(
    trace: Trace, k: int, place: str, kind: type[Any], name: str, count: Count, factor: float
) -> Array | None:
    implementation = assemble(scaled(kind, name, factor), "scaled")
    with np.errstate(all="ignore"):
        for number, answer in answers(trace.steps[: k + 1], implementation):
            count.left -= 1
            if number == k:
                array = told(trace.steps, k, answer.values).get(place)
                return None if array is None else np.asarray(array, np.float64)
    return None


def _factor(answer: Callable[[float], Array | None], found: tuple[Trace, int, str]) -> float | None:
    """The factor for which the answer is the one that was heard; None where there is none."""
    trace, k, place = found
    wanted = told(trace.steps, k, trace.steps[k].values)[place]
    before, at = np.asarray(told(trace.steps, k, trace.right[k].values)[place], np.float64), 1.0
    factor = FIRST
    for _ in range(TRIES):
        now = answer(factor)
        if now is None or now.shape != wanted.shape or not np.isfinite(now).all():
            return None
        if close(now.astype(wanted.dtype), wanted):
            return float(f"{factor:.6g}")
        slope = (now - before) / (factor - at)
        size = float((slope * slope).sum())
        if not size:
            return None
        before, at = now, factor
        factor += float(((wanted - now) * slope).sum()) / size
        if not np.isfinite(factor) or abs(factor) > FARTHEST or factor == at:
            return None
    return None
