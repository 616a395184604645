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
    Goal("greedy_1", "compiled", "Marian", 2.0),
    Goal("greedy_16", "compiled", "Marian", 2.0),
    Goal("greedy_1", "compiled", "CTranslate2", 0.8),
    Goal("greedy_16", "compiled", "CTranslate2", 1.5),
    Goal("beam_4", "compiled", "Marian", 1.5),
)


def reported(outcomes: Sequence[Outcome], ratios: Iterable[Ratio]) -> list[dict[str, Any]]:
    """Each ratio as it was seen, or none where one of the two did not run."""
    return [{"sentence": ratio.sentence, "seen": _seen(outcomes, ratio)} for ratio in ratios]


def judged(outcomes: Sequence[Outcome], goals: Iterable[Goal]) -> list[dict[str, Any]]:
    """Each goal with the ratio seen; at two decimals, as shown."""
    return [_judged(_seen(outcomes, goal), goal) for goal in goals]


def _seen(outcomes: Sequence[Outcome], ratio: Ratio) -> float | None:
    by_name = {outcome.work.name: outcome for outcome in outcomes}
    outcome = by_name.get(ratio.workload)
    found = None if outcome is None else outcome.ratio(ratio.entrant, ratio.baseline)
    return None if found is None else round(found[0], 3)


def _judged(seen: float | None, goal: Goal) -> dict[str, Any]:
    reached = None if seen is None else round(seen, 2) >= goal.wanted
    return {"sentence": goal.sentence, "wanted": goal.wanted, "seen": seen, "reached": reached}
