"""Interleaved timing: every entrant once per round, so that a slow minute of the machine hits all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from attest.bench.agreement import expect_greedy
from attest.bench.workloads import Workload
from attest.contract import Array
from attest.outcomes import NotOffered

Say = Callable[[str], None]

LARGEST = 5  # operations of a profile
CALM = 0.3  # a spread up to this is called undisturbed
TRIES = 2  # of a workload that was disturbed


class Timed(Protocol):
    """An entrant, in this process or in another."""

    name: str
    peer: bool
    dtype: str

    def warm(self, work: Workload) -> Array | None:
        """Prepare the workload and run it once; NotOffered with the reason where that fails.

        What a completion wrote is answered, so that it can be checked.
        """

    def seconds(self, clock: str) -> float:
        """Do the work once; NotOffered where that fails."""

    def profile(self, most: int) -> list[tuple[str, float]]:
        """The operations in which one run spends most of its time, with their shares."""


@dataclass
class Timing:
    """The seconds of one entrant at one workload, in order of the rounds."""

    entrant: str
    seconds: list[float] = field(default_factory=list)
    peer: bool = False
    profile: list[tuple[str, float]] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """How far the slowest round is above the best, as a share of it."""
        return max(self.seconds) / self.best - 1


@dataclass
class Outcome:
    """One workload: the entrants that ran, and those that did not with the reason."""

    work: Workload
    timings: list[Timing]
    absent: dict[str, str]

    @property
    def disturbed(self) -> bool:
        """Whether the rounds of somebody differ by more than the machine's own unrest on a calm day."""
        return any(timing.spread > CALM for timing in self.timings)

    def ratio(self, entrant: str, baseline: str) -> tuple[float, float, float] | None:
        """How many times as fast as the baseline: best over best, and the least and most of any round."""
        by_name = {timing.entrant: timing for timing in self.timings}
        if entrant not in by_name or baseline not in by_name:
            return None
        own, other = by_name[entrant], by_name[baseline]
        rounds = [b / a for a, b in zip(own.seconds, other.seconds)]
        return other.best / own.best, min(rounds), max(rounds)


def measure(work: Workload, entrants: Sequence[Timed], rounds: int, say: Say, clock: str = "wall") -> Outcome:
    """Prepare and warm each entrant, then time them in turns; once more where neighbours disturbed it."""
    absent: dict[str, str] = {}
    for entrant in entrants:
        say(f"{work.name}: preparing {entrant.name}")
        try:
            written = entrant.warm(work)
            if written is not None:
                expect_greedy(work, written, entrant.dtype)
        except NotOffered as reason:
            absent[entrant.name] = str(reason)
    found = _timed(work, entrants, rounds, say, clock, absent)
    for _ in range(TRIES - 1):
        if not found.disturbed:
            break
        say(f"{work.name}: spread above {CALM:.0%}; timing it again")
        again = _timed(work, entrants, rounds, say, clock, absent)
        found = min(found, again, key=lambda outcome: sum(timing.spread for timing in outcome.timings))
    for entrant in (one for one in entrants if not one.peer and one.name not in absent):
        say(f"{work.name}: where {entrant.name} spends its time")
        timing = next(timing for timing in found.timings if timing.entrant == entrant.name)
        timing.profile = entrant.profile(LARGEST)
    return found


def _timed(
    work: Workload, entrants: Sequence[Timed], rounds: int, say: Say, clock: str, absent: dict[str, str]
) -> Outcome:
    """The rounds of everyone who is not absent; who fails in one joins the absent."""
    timings = {one.name: Timing(one.name, peer=one.peer) for one in entrants}
    for n in range(rounds):
        for entrant in (one for one in entrants if one.name not in absent):
            say(f"{work.name}: round {n + 1} of {rounds}, {entrant.name}")
            try:
                timings[entrant.name].seconds.append(entrant.seconds(clock))
            except NotOffered as reason:
                absent[entrant.name] = str(reason)
    return Outcome(work, [timing for name, timing in timings.items() if name not in absent], absent)
