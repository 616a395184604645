"""Ratios at the base shape, within one run: some are only reported, some are goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from attest.bench.measuring import Outcome


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as `baseline` does `entrant` do `workload`."""

    workload: str
    entrant: str
    baseline: str

    @property
    def sentence(self) -> str:
        return f"{self.workload}: {self.entrant} against {self.baseline}"


@dataclass(frozen=True)
class Goal(Ratio):
    """The ratio is meant to be at least `wanted`."""

    wanted: float


@dataclass(frozen=True)
class ReadingGoal:
    """Reading the weights once is meant to be at least this share of the seconds that a token takes.

    No implementation with float32 weights can be faster than the memory that they lie in.
    """

    workload: str
    entrant: str
    wanted: float

    @property
    def sentence(self) -> str:
        return f"{self.workload}: {self.entrant} against reading the weights at the measured bandwidth"


BEST_PEER = "the fastest peer"

# eager is written to be read, so nothing is demanded of its speed.
RATIOS = (
    Ratio("train", "eager", "nn.Transformer"),
    Ratio("greedy_1", "eager", "eager re-running"),
    Ratio("greedy_16", "eager", "eager re-running"),
)
# numpy_scratch shall be fast enough to learn with: a step takes at most three times as long as eager's.
GOALS = (
    Goal("train_task", "numpy_scratch", "eager", 0.33),
    Goal("train", "compiled", "eager", 1.0),
    Goal("train", "compiled", "nn.Transformer", 1.1),
    Goal("encode", "compiled", "Marian", 1.1),
    Goal("greedy_1", "compiled", "Marian", 2.0),
    Goal("greedy_16", "compiled", "Marian", 2.0),
    Goal("greedy_1", "compiled", "CTranslate2", 0.8),
    Goal("greedy_16", "compiled", "CTranslate2", 1.5),
    Goal("beam_4", "compiled", "Marian", 1.5),
    Goal("beam_4", "compiled", "CTranslate2", 1.0),
    Goal("complete_1", "compiled", BEST_PEER, 1.0),
    Goal("complete_16", "compiled", BEST_PEER, 1.5),
    ReadingGoal("complete_1", "compiled", 0.7),
)


def reported(outcomes: Sequence[Outcome], ratios: Iterable[Ratio]) -> list[dict[str, Any]]:
    """Each ratio as it was seen, or none where one of the two did not run."""
    return [{"sentence": ratio.sentence, "seen": _seen(outcomes, ratio)} for ratio in ratios]


def judged(
    outcomes: Sequence[Outcome], goals: Iterable[Goal | ReadingGoal], bandwidth: float
) -> list[dict[str, Any]]:
    """Each goal with the ratio seen; at two decimals, as shown. `bandwidth` is in GB/s."""
    return [_judged(_reached(outcomes, goal, bandwidth), goal) for goal in goals]


def _reached(outcomes: Sequence[Outcome], goal: Goal | ReadingGoal, bandwidth: float) -> float | None:
    return _read(outcomes, goal, bandwidth) if isinstance(goal, ReadingGoal) else _seen(outcomes, goal)


def _outcome(outcomes: Sequence[Outcome], workload: str) -> Outcome | None:
    return next((outcome for outcome in outcomes if outcome.work.name == workload), None)


def _seen(outcomes: Sequence[Outcome], goal: Ratio) -> float | None:
    outcome = _outcome(outcomes, goal.workload)
    if outcome is None:
        return None
    baseline = goal.baseline
    if baseline == BEST_PEER:
        peers = [timing for timing in outcome.timings if timing.peer]
        baseline = min(peers, key=lambda timing: timing.best).entrant if peers else ""
    found = outcome.ratio(goal.entrant, baseline)
    return None if found is None else round(found[0], 3)


def _read(outcomes: Sequence[Outcome], goal: ReadingGoal, bandwidth: float) -> float | None:
    outcome = _outcome(outcomes, goal.workload)
    timings = [] if outcome is None else [t for t in outcome.timings if t.entrant == goal.entrant]
    if outcome is None or not timings:
        return None
    steps = outcome.work.tokens  # rows share one reading of the weights
    return round(steps * outcome.work.shape.bytes_per_token / (bandwidth * 1e9) / timings[0].best, 3)


def _judged(seen: float | None, goal: Goal | ReadingGoal) -> dict[str, Any]:
    reached = None if seen is None else round(seen, 2) >= goal.wanted
    return {"sentence": goal.sentence, "wanted": goal.wanted, "seen": seen, "reached": reached}
