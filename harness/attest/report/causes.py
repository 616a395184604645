"""Many failures, few faults: the known defects that failing criteria agree with, and what each explains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from attest.records.record import ERROR, FAIL

_LIKENESS = re.compile(r"(\w+) \(agrees on (\d+) of (\d+) cases?(, too few to be sure)?\)")


@dataclass(frozen=True)
class Cause:
    """A known defect and the failing criteria that behave exactly like it."""

    defect: str
    criteria: tuple[str, ...]
    few: bool = False  # too few cases could be compared, whichever criterion is looked at

    @property
    def doubt(self) -> str:
        """What is said after the count of criteria it explains."""
        return ", on too few cases to be sure" if self.few else ""


def likely_causes(rows: Iterable[Mapping[str, Any]]) -> list[Cause]:
    """The defects that agree on every case of a failure, those that explain most first."""
    found: dict[str, list[str]] = {}
    sure: set[str] = set()
    for row in rows:
        if row["verdict"] in (FAIL, ERROR) and row["failure"]:
            for defect, agrees, cases, few in _LIKENESS.findall(row["failure"]["looks_like"]):
                if agrees == cases:
                    found.setdefault(defect, []).append(row["id"])
                    sure |= set() if few else {defect}
    causes = [Cause(defect, tuple(ids), defect not in sure) for defect, ids in found.items()]
    return sorted(causes, key=lambda cause: -len(cause.criteria))


def unexplained(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Failing criteria that behave exactly like no known defect."""
    rows = list(rows)
    explained = {id for cause in likely_causes(rows) for id in cause.criteria}
    return [r["id"] for r in rows if r["verdict"] in (FAIL, ERROR) and r["id"] not in explained]
