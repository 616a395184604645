"""What can become of a check: a violation, not offered, not run, out of time; and what was expected.

Any layer may raise these. None of them reads ambient state, so each can be made anywhere; whoever catches a
`Violation` knows which case was running and adds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt


class Violation(AssertionError):
    """An implementation did not do what the criterion requires.

    `ratio` is the error over its bound where there is one. `case` and `property` are filled in by
    `run_property`, which knows what was drawn.
    """

    def __init__(self, seen: str, *, ratio: float | None = None) -> None:
        super().__init__(seen)
        self.seen = seen
        self.ratio = ratio
        self.case = ""
        self.property = ""


class NotOffered(Exception):
    """The implementation does not have what the criterion needs."""


class NotRun(Exception):
    """The run lacks what the criterion needs; the reason is recorded."""


class Timeout(BaseException):
    """Raised by the timer. Not an Exception: Hypothesis would take one for a failing example."""


@dataclass(frozen=True)
class Expected:
    """A float64 value and, per row of its last axis, the distance a correct result may have from it."""

    value: npt.NDArray[Any]
    bound: npt.NDArray[Any]
