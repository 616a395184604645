"""What a recorded failure claims about a step: the smallest statement that a script can check by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attest.contract import OPERATIONS, Array, Config, Form
from attest.contract.parameters import shapes
from attest.diagnosis.answers import close
from attest.diagnosis.recording import Ref, Step, asked_again
from attest.outcomes import Deviation, Violation
from attest.reference.implementation import ReferenceImplementation

LEARNED = frozenset({Form.TRAINER, Form.OPTIMIZER, Form.GENERATOR})  # around a model's parameters


@dataclass(frozen=True)
class Claim:
    """About step number `step`; `also` is an earlier step that the script needs as well."""

    step: int
    also: int | None = None


@dataclass(frozen=True)
class Raises(Claim):
    """The step raises, and should not."""


@dataclass(frozen=True)
class Refuses(Claim):
    """The step should raise; with words, a ValueError whose message holds each of them."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Number(Claim):
    """One number of the step's result should be another one, within `allowed`."""

    place: str = ""
    index: tuple[int, ...] = ()
    wanted: float | None = None  # None: any finite number
    allowed: float = 0.0
    other: str = ""  # the place in the result of `also` where the wanted number stands


@dataclass(frozen=True)
class Changed(Claim):
    """The step changed an array that was given to it."""

    name: str = ""


@dataclass(frozen=True)
class Right(Claim):
    """The step should give these arrays."""

    arrays: tuple[tuple[str, Array], ...] = ()


def claims(steps: Sequence[Step], violation: Violation) -> Iterator[Claim]:
    """What the script could check, the nearest to the violation first."""
    last = len(steps) - 1
    if violation.raised:
        yield from (Raises(k) for k in range(last, -1, -1) if steps[k].raised == violation.raised)
    if violation.refusal is not None:
        yield Refuses(last, words=violation.refusal)
    if violation.deviation is not None:
        yield from _numbers(steps, violation.deviation)
    yield from (Changed(k, name=name) for k, step in enumerate(steps) for name in step.changed)
    yield from _wrong_answers(steps)


def _numbers(steps: Sequence[Step], deviation: Deviation) -> Iterator[Claim]:
    """Where the number of the violation stands in a result, latest first."""
    allowed = 0.0
    if deviation.ratio and deviation.wanted is not None:
        allowed = abs(deviation.seen - deviation.wanted) / deviation.ratio
    for k in range(len(steps) - 1, -1, -1):
        for place, array in steps[k].values.items():
            index = _where(array, deviation)
            if index is None:
                continue
            earlier = _earlier(steps, k, place, index, deviation.wanted)
            if earlier is not None:
                yield Number(k, earlier, place, index, deviation.wanted, allowed, place)
            yield Number(k, None, place, index, deviation.wanted, allowed)


def _where(array: Array, deviation: Deviation) -> tuple[int, ...] | None:
    """Where the number stands. A check may have looked at a slice: then a number that is no whole one is
    searched in all of the array."""
    if _stands(array, deviation.index, deviation.seen):
        return deviation.index
    if not math.isfinite(deviation.seen) or float(deviation.seen).is_integer():
        return None
    found = np.argwhere(array == deviation.seen)
    return tuple(int(i) for i in found[0]) if len(found) else None


def _earlier(
    steps: Sequence[Step], k: int, place: str, index: tuple[int, ...], wanted: float | None
) -> int | None:
    """The step in which the wanted number stands at the same place."""
    if wanted is None:
        return None
    there = (i for i in range(k) if place in steps[i].values)
    return next((i for i in there if _stands(steps[i].values[place], index, wanted)), None)


def _stands(array: Array, index: tuple[int, ...], number: float) -> bool:
    if array.ndim != len(index) or any(i >= n for i, n in zip(index, array.shape)):
        return False
    value = float(array[index])
    return value == number or (math.isnan(value) and math.isnan(number))


def _wrong_answers(steps: Sequence[Step]) -> Iterator[Claim]:
    """Steps that the reference answers otherwise, where two right answers are the same."""
    right = asked_again(list(steps), ReferenceImplementation())
    for k, step in enumerate(steps):
        if not comparable(steps, k):
            continue
        theirs = right[k]
        if theirs is None:
            if not step.raised and step.target.step is None:
                yield Refuses(k)
        elif step.raised:
            if step.raised != "NotImplementedError":  # that one says: not offered
                yield Raises(k)
        elif wrong := _different(step.values, theirs):
            yield Right(k, arrays=tuple(wrong.items()))


def _different(mine: Mapping[str, Array], right: Mapping[str, Array]) -> dict[str, Array]:
    common = [place for place in right if place in mine]
    return {place: right[place] for place in common if not _alike(mine[place], right[place])}


def _alike(mine: Array, right: Array) -> bool:
    if mine.dtype.kind in "iub" and right.dtype.kind in "iub":
        return bool(np.array_equal(mine, right))
    return close(mine, right)


def comparable(steps: Sequence[Step], k: int) -> bool:
    """Whether two correct implementations give the same in this step: same parameters, nothing random."""
    before = [s for s in steps[: k + 1] if root(steps, s.target) == root(steps, steps[k].target)]
    if steps[k].target == Ref() or "seed" in steps[k].kwargs:
        return steps[k].target == Ref()
    modes = [s.method for s in before if s.method in ("train", "eval")]
    return not (modes and modes[-1] == "train") and _is_loaded(steps, k, before)


def _is_loaded(steps: Sequence[Step], k: int, before: Sequence[Step]) -> bool:
    made = steps[root(steps, steps[k].target)]
    config = made.args[0] if made.args else None
    if not isinstance(config, Config) or made.method not in OPERATIONS:
        return False
    form = OPERATIONS[made.method].form
    if form is Form.TRAINER and config.dropout:
        return False
    try:
        learned = form in LEARNED or bool(shapes(made.method, config))
    except Exception:
        return False  # a config that no component has
    return not learned or any(s.method == "load" for s in before)


def root(steps: Sequence[Step], ref: Ref) -> int:
    """The number of the step that built what a reference leads to; -1 for the implementation itself."""
    while ref.step is not None:
        if steps[ref.step].target.step is None:
            return ref.step
        ref = steps[ref.step].target
    return -1
