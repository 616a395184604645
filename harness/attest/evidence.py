"""What a criterion saw while it ran: examples, regimes, the worst error over its bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Evidence:
    """Filled by the checks, read by the runner. One per criterion and implementation."""

    examples: int = 0
    regimes: Counter[str] = field(default_factory=Counter)
    worst_ratio: float | None = None
    worst_case: str = ""
    case: str = ""
    example_ratio: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)  # cases that are not offered, by the words
    data: dict[str, Any] = field(default_factory=dict)  # curves and pictures for the report

    def begin(self, case: str, regimes: tuple[str, ...]) -> None:
        """A new example starts."""
        self.case = case
        self.example_ratio = 0.0
        self.examples += 1
        self.regimes.update(regimes)

    def refuse(self, words: str, regimes: tuple[str, ...]) -> None:
        """Take back the example that has begun: a case that is not offered does not count as evidence."""
        self.examples -= 1
        self.regimes.subtract(regimes)
        self.regimes = +self.regimes
        if words:  # none where it is not claimed
            self.refused[words] += 1

    def saw(self, ratio: float) -> None:
        """Note an error that is `ratio` times its bound; the largest is kept with its case."""
        self.example_ratio = max(self.example_ratio, ratio)
        if self.worst_ratio is None or ratio > self.worst_ratio:
            self.worst_ratio, self.worst_case = ratio, self.case


_current: ContextVar[Evidence | None] = ContextVar("attest_evidence", default=None)


def current() -> Evidence:
    """The evidence of the criterion that is running; outside one, evidence that is never read."""
    return _current.get() or Evidence()


@contextmanager
def collecting() -> Iterator[Evidence]:
    """Collect evidence while the body runs."""
    evidence = Evidence()
    token = _current.set(evidence)
    try:
        yield evidence
    finally:
        _current.reset(token)


def note_case(case: str, *regimes: str) -> None:
    """For criteria without drawn cases: count one example and name it."""
    current().begin(case, regimes)
