"""The changes of the reference after which it answers as the implementation does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile
from types import CodeType
from typing import Any

from attest.diagnosis.altered import altered
from attest.diagnosis.edits import Edit, edits
from attest.diagnosis.nearness import Near
from attest.diagnosis.traces import Count, Trace, agrees
from attest.diagnosis.wrong import Altered, wrong_answers
from attest.records.failure import FEW, Edited

POSSIBLE = 0.6  # of the wrong cases that a change must explain
PLACES = 3  # classes that may be the place; more of them say nothing
AS_RIGHT = 12  # cases without a fault in which a change of the reference must make none either
MOST_CHANGED = 30000  # calls of a small part, about three seconds, for changing one value after the other


def explained(
    heard: Sequence[Trace], seen: frozenset[CodeType], near: Near, count: Count
) -> tuple[Edited, ...]:
    """The changes of the reference that give every answer of every case, of each class the first.

    There are many of them, so all must agree: the wrong answers, by a number and not only by an exception,
    and the right answers of the cases where nothing is wrong. Of several classes any may be the place. Where
    none gives every wrong answer, the one that gives most of them is stated with its share.
    """
    every = [trace for trace in heard if trace.tells]
    telling = [trace for trace in every if trace.finite]
    telling = telling if len(telling) >= FEW else every
    if not any(trace.by_value for trace in telling):
        return ()
    quickest = sorted(telling, key=lambda trace: (not trace.by_value, len(trace.steps)))
    right = [trace for trace in heard if not trace.tells][:AS_RIGHT]
    left_out = len(every) - len(telling)
    slips = takewhile(lambda edit: not count.spent, edits(seen, near))
    partly: list[Edited] = []
    sources: Iterator[Iterable[Edit | Altered]]
    # Of values there are so many changes that a few single numbers agree with one by chance.
    values = altered(telling, seen, near, Count(MOST_CHANGED)) if len(telling) >= FEW else iter(())
    sources = chain((slips,), values)
    for source in sources:
        found: dict[str, Edited] = {}
        for edit in source:
            kind = edit.place.partition(".")[0]
            apart = _apart_from(edit.build(), quickest, right, count) if kind not in found else None
            if apart is None:
                continue
            said = Edited(edit.place, edit.before, edit.after, len(telling), left_out, apart)
            if apart:
                partly.append(said)
            else:
                found[kind] = said
            if len(found) > PLACES:
                break
        if found:
            return tuple(found.values()) if len(found) <= PLACES else ()
    if all(wrong.right.size < FEW for wrong in wrong_answers(telling)):
        return ()  # single numbers that agree in part may be one number many times
    return tuple(sorted(partly, key=lambda said: said.apart)[:1])


def _apart_from(made: Any, telling: Sequence[Trace], right: Sequence[Trace], count: Count) -> int | None:
    """In how many wrong cases a change answers otherwise than the implementation.

    None where it does in the first, in a right one, or in too many.
    """
    if not agrees(telling[0], made, count):
        return None
    most = max(0, min(int(len(telling) * (1 - POSSIBLE)), len(telling) - FEW))
    apart = 0
    for trace in telling[1:]:
        apart += not agrees(trace, made, count)
        if apart > most:
            return None
    return apart if all(agrees(trace, made, count) for trace in right) else None
