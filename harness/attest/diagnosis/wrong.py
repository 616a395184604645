"""The wrong answers that a change has to give, one expression at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attest.contract import Array
from attest.diagnosis.answers import close
from attest.diagnosis.hooks import Alter, Hooked
from attest.diagnosis.recording import Answer, Step, answers
from attest.diagnosis.traces import Count, Trace, told

ENOUGH = 48  # numbers in an answer: more of them only take longer


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

    @property
    def answers(self) -> tuple[Step, Answer]:
        """All that the implementation and the reference say in this step."""
        return self.trace.steps[self.step], self.trace.right[self.step]

    def all_answers(self, implementation: Any, count: Count) -> Mapping[str, Array]:
        """What another implementation says in this step; nothing where it raises."""
        found: Mapping[str, Array] = {}
        with np.errstate(all="ignore"):
            for number, answer in answers(self.trace.steps[: self.step + 1], implementation):
                count.left -= self.trace.cost(number)
                if number == self.step:
                    found = told(self.trace.steps, self.step, answer.values)
        return found


def wrong_answers(telling: Sequence[Trace]) -> list[Wrong]:
    """Of each case its first wrong answer; the shortest case first, then the smallest that has enough."""
    found = [wrong for trace in telling if (wrong := _first(trace)) is not None]
    return sorted(
        found,
        key=lambda wrong: (len(wrong.trace.steps), -min(wrong.right.size, ENOUGH), wrong.right.size),
    )


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
class Met:
    """An expression that a wrong answer depends on: a value of it, and the names around it."""

    place: Hooked
    wrong: Wrong
    value: Any
    scope: Mapping[str, Any]
    ask: Callable[[Alter], Array | None]  # what the wrong answer becomes with the value changed
    spoils: int  # answers given beside the wrong one that are right, and would not be


def gives(met: Met, alter: Alter) -> bool:
    """Whether the answer with the value changed is the wrong one."""
    answer = met.ask(alter)
    return answer is not None and close(answer, met.wrong.seen)
