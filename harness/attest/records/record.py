"""The record of one criterion on one implementation, as it crosses processes and lands in reports."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from attest.records.failure import Failure

PASS, FAIL, ERROR, THIN = "pass", "fail", "error", "thin"
KNOWN, NOT_OFFERED, NOT_CLAIMED, NOT_RUN = "known failure", "not offered", "not claimed", "not run"
VERDICTS = (PASS, FAIL, ERROR, THIN, KNOWN, NOT_OFFERED, NOT_CLAIMED, NOT_RUN)


@dataclass(frozen=True)
class Record:
    """A record starts as an error and becomes a pass as the last thing."""

    implementation: str
    criterion: str
    milestone: str
    level: str
    verdict: str = ERROR
    reason: str = "the criterion did not finish"
    failure: Failure | None = None
    examples: int = 0
    floor: int = 0
    regimes: Mapping[str, int] = field(default_factory=dict)
    worst_ratio: float | None = None
    worst_case: str = ""
    seconds: float = 0.0
    seed: int = 0
    profile: str = "standard"
    dtype: str = ""
    device: str = "cpu"
    spec_version: str = ""
    text_hash: str = ""
    link: str = ""
    widened: float = 1.0
    policy: str = ""  # how drawn cases were narrowed, as the implementation asked
    claims: str = ""  # what the implementation claims beside the model of 2017
    packages: str = ""  # what is judged comes from these, with versions
    features: tuple[str, ...] = ()  # those of the criterion that are claimed
    data: Mapping[str, Any] = field(default_factory=dict)  # curves and pictures for the report
    blocked_by: tuple[str, ...] = ()
    internal: bool = False  # the harness failed, not the implementation

    def but(self, **changes: Any) -> Record:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def to_json(self) -> str:
        """One line of strict JSON: no NaN, no infinity, no numpy scalar."""
        return json.dumps(asdict(self), allow_nan=False, default=_plain, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Record:
        """The inverse of `to_json`."""
        data = json.loads(text)
        failure = data.pop("failure")
        data["blocked_by"] = tuple(data["blocked_by"])
        data["features"] = tuple(data.get("features", ()))
        return cls(failure=Failure.from_data(failure) if failure else None, **data)


def finite(ratio: float | None) -> float | None:
    """A ratio as JSON can hold it: None where it is not a finite number."""
    return float(f"{ratio:.4g}") if ratio is not None and math.isfinite(ratio) else None


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a record cannot hold {type(value).__name__}")
