"""In which order methods of the reference are tried: first those that defects of the criterion override.

There are more changes of more methods than can be tried for one failure. What known defects of the failing
criterion are made of is the best guess of what it looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attest.diagnosis.executed import overridden
from attest.judging.catalogue import Defect

Rank = tuple[bool, bool, int]  # not of the criterion, not of its operations, milestones apart
FARTHEST: Rank = (True, True, 1000)
Near = Callable[[type[Any], str], tuple[Rank, Rank]]


def nearness(candidates: Sequence[tuple[Rank, Defect]]) -> Near:
    """A key to sort methods by: the best rank of a defect in their class, then in the method itself."""
    methods: dict[str, Rank] = {}
    classes: dict[str, Rank] = {}
    for rank, defect in candidates:
        for place in overridden(defect.piece):
            kind = place.partition(".")[0]
            methods[place] = min(rank, methods.get(place, FARTHEST))
            classes[kind] = min(rank, classes.get(kind, FARTHEST))

    def near(kind: type[Any], name: str) -> tuple[Rank, Rank]:
        place = f"{kind.__name__}.{name}"
        return classes.get(kind.__name__, FARTHEST), methods.get(place, FARTHEST)

    return near


def level_of(near: Near, kind: type[Any], name: str) -> int:
    """0: a defect of the criterion is of this class; 1: one of the same operations is; 2: none."""
    (other_criterion, other_operations, _), _ = near(kind, name)
    return other_criterion + other_operations
