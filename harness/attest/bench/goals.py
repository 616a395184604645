"""What the project's own implementations are meant to reach at the base shape, as ratios within one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from attest.bench.measuring import Outcome


@dataclass(frozen=True)
class Goal:
    """`entrant` does `workload` at least `wanted` times as fast as `baseline`."""

    workload: str
    entrant: str
    baseline: str
    wanted: float

    @property
    def sentence(self) -> str:
        return f"{self.workload}: {self.entrant} against {self.baseline}"


GOALS = (
    Goal("train", "eager", "nn.Transformer", 1.0),
    Goal("train", "compiled", "eager", 1.0),
    Goal("greedy_1", "compiled", "Marian", 2.0),
    Goal("greedy_16", "compiled", "Marian", 2.0),
    Goal("greedy_1", "compiled", "CTranslate2", 0.8),
    Goal("greedy_16", "compiled", "CTranslate2", 1.5),
    Goal("beam_4", "compiled", "Marian", 1.5),
    Goal("greedy_1", "eager", "eager re-running", 4.0),
    Goal("greedy_16", "eager", "eager re-running", 10.0),
)


def judged(outcomes: Sequence[Outcome], goals: Iterable[Goal]) -> list[dict[str, Any]]:
    """Each goal with the ratio seen, or none where one of the two did not run; at two decimals, as shown."""
    by_name = {outcome.work.name: outcome for outcome in outcomes}
    return [_judged(by_name.get(goal.workload), goal) for goal in goals]


def _judged(outcome: Outcome | None, goal: Goal) -> dict[str, Any]:
    found = None if outcome is None else outcome.ratio(goal.entrant, goal.baseline)
    seen = None if found is None else found[0]
    return {
        "sentence": goal.sentence,
        "wanted": goal.wanted,
        "seen": None if seen is None else round(seen, 3),
        "reached": None if seen is None else round(seen, 2) >= goal.wanted,
    }
