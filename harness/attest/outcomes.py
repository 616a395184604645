"""What can become of a check: a violation, not offered, not run, out of time; and what was expected.

Any layer may raise these. None of them reads ambient state, so each can be made anywhere; the code that
catches a `Violation` knows which case was running and adds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

MOST_DIGITS = 17  # enough to tell any two float64 numbers apart
FEWEST_DIGITS = 6


@dataclass(frozen=True)
class Deviation:
    """One number that is not what it should be, as data. `str` makes the sentence."""

    what: str
    index: tuple[int, ...]
    seen: float
    wanted: float | None  # None: any finite number
    ratio: float | None = None  # the error over `limit`; None: nothing but equality would do
    limit: str = ""

    def __str__(self) -> str:
        seen, wanted = told_apart(self.seen, self.wanted if self.wanted is not None else 0.0)
        if self.wanted is None:
            return f"{self.place} is {seen}, should be finite"
        if self.ratio is None:
            return f"{self.place} moved from {wanted} to {seen}"
        return f"{self.place} is {seen}, should be {wanted} ({self.ratio:.3g} times {self.limit})"

    @property
    def place(self) -> str:
        """The quantity with its index."""
        return f"{self.what}[{', '.join(map(str, self.index))}]" if self.index else self.what


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see that they differ."""
    for digits in range(FEWEST_DIGITS, MOST_DIGITS + 1):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1] or one == other:
            break
    return texts


class Violation(AssertionError):
    """An implementation did not do what the criterion requires.

    `seen` is the sentence; the other fields are the same as data. `ratio` is the error over its bound where
    there is one, `raised` the class of an exception that should not have been raised, `refusal` the words
    that an exception should have held (none where any exception would do). `case` and `property` are filled
    in by `run_property`, which knows what was drawn.
    """

    def __init__(
        self,
        seen: str = "",
        *,
        ratio: float | None = None,
        deviation: Deviation | None = None,
        raised: str = "",
        refusal: tuple[str, ...] | None = None,
    ) -> None:
        self.seen = seen or str(deviation)
        super().__init__(self.seen)
        self.deviation = deviation
        self.ratio = deviation.ratio if deviation else ratio
        self.raised = raised
        self.refusal = refusal
        self.case = ""
        self.property = ""


class Wiring(Violation):
    """The parameters have other names or shapes than the contract's, so that nothing can be judged."""


class NotOffered(Exception):
    """The implementation does not have what the criterion needs."""


class NotClaimed(NotOffered):
    """The implementation does not say that it can do this, so it is not asked."""


class NotRun(Exception):
    """The run lacks what the criterion needs; the reason is recorded."""


class Timeout(BaseException):
    """Raised by the timer. Not an Exception: Hypothesis would take one for a failing example."""


class Ended(Timeout):
    """The process of a sealed implementation ended, or was ended: as with a time limit, nothing follows."""


@dataclass(frozen=True)
class Expected:
    """A float64 value and, per row of its last axis, the distance a correct result may have from it."""

    value: npt.NDArray[Any]
    bound: npt.NDArray[Any]
