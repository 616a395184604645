"""Interleaved timing: every entrant once per round, so that a slow minute of the machine hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from attest.bench.entrants import Entrant, Run
from attest.bench.workloads import Workload
from attest.boundary import NotOffered
from attest.checks import Violation, quiet
from attest.evidence import collecting

Say = Callable[[str], None]

# The processor's own time leaves out what neighbours take: for one thread on a machine that is not idle.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass
class Timing:
    """The seconds of one entrant at one workload, in order of the rounds."""

    entrant: str
    seconds: list[float] = field(default_factory=list)
    peer: bool = False

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """How far the slowest round is above the best, as a share of it."""
        return max(self.seconds) / self.best - 1


@dataclass
class Outcome:
    """One workload: who ran and who did not, with the reason."""

    work: Workload
    timings: list[Timing]
    absent: dict[str, str]

    def ratio(self, entrant: str, baseline: str) -> tuple[float, float, float] | None:
        """How many times as fast as the baseline: best over best, and the least and most of any round."""
        by_name = {timing.entrant: timing for timing in self.timings}
        if entrant not in by_name or baseline not in by_name:
            return None
        own, other = by_name[entrant], by_name[baseline]
        rounds = [b / a for a, b in zip(own.seconds, other.seconds)]
        return other.best / own.best, min(rounds), max(rounds)


def measure(
    work: Workload, entrants: Sequence[Entrant], rounds: int, say: Say, clock: str = "wall"
) -> Outcome:
    """Prepare and warm each entrant, then time them in turns."""
    runs: dict[str, Run] = {}
    absent: dict[str, str] = {}
    for entrant in entrants:
        say(f"{work.name}: preparing {entrant.name}")
        try:
            with collecting():
                runs[entrant.name] = _warm(entrant, work)
        except (NotOffered, Violation) as reason:
            absent[entrant.name] = str(reason)
    present = [entrant for entrant in entrants if entrant.name in runs]
    timings = {entrant.name: Timing(entrant.name, peer=entrant.peer) for entrant in present}
    for n in range(rounds):
        for entrant in present:
            say(f"{work.name}: round {n + 1} of {rounds}, {entrant.name}")
            timings[entrant.name].seconds.append(entrant.every * _seconds(runs[entrant.name], CLOCKS[clock]))
    return Outcome(work, list(timings.values()), absent)


def _warm(entrant: Entrant, work: Workload) -> Run:
    """What is compiled or allocated at first is not timed; nor is anybody who does less than was asked."""
    with quiet():
        run = entrant.prepare(work)
        done = run()
        if done != work.units:
            raise Violation(f"{done} tokens instead of {work.units}")
    return run


def _seconds(run: Run, clock: Callable[[], float]) -> float:
    with quiet():
        started = clock()
        run()
        return clock() - started
