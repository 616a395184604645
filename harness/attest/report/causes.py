"""Many failures, few faults: the known defects that failing criteria agree with, and what each explains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from attest.records.record import ERROR, FAIL
from attest.report.rows import CriterionRow, LikenessRow


@dataclass(frozen=True)
class Cause:
    """A known defect and the failing criteria that behave exactly like it."""

    defect: str
    criteria: tuple[str, ...]
    sure: bool = True  # the agreement of at least one criterion cannot be chance

    @property
    def doubt(self) -> str:
        """What is said after the count of criteria it explains."""
        return "" if self.sure else ", on too few cases to be sure"


def likely_causes(rows: Iterable[CriterionRow]) -> list[Cause]:
    """The defects that agree on every case of a failure, those that explain most first."""
    found: dict[str, list[str]] = {}
    sure: set[str] = set()
    for row in rows:
        for likeness in _exact(row):
            found.setdefault(likeness["defect"], []).append(row["id"])
            if likeness["confidence"] == "high":
                sure.add(likeness["defect"])
    causes = [Cause(defect, tuple(ids), defect in sure) for defect, ids in found.items()]
    return sorted(causes, key=lambda cause: -len(cause.criteria))


def _exact(row: CriterionRow) -> list[LikenessRow]:
    """The defects that agree on all cases; none in a report from before the data was kept."""
    failure = row["failure"]
    if row["verdict"] not in (FAIL, ERROR) or failure is None:
        return []
    return [likeness for likeness in failure.get("likenesses", []) if likeness["agrees"] == likeness["cases"]]


def unexplained(rows: Iterable[CriterionRow]) -> list[str]:
    """Failing criteria that behave exactly like no known defect."""
    rows = list(rows)
    explained = {id for cause in likely_causes(rows) for id in cause.criteria}
    return [r["id"] for r in rows if r["verdict"] in (FAIL, ERROR) and r["id"] not in explained]
