"""The rows of report.json as types; schema.json beside this file says the same to other programs.

Keys that are not required came later: reports written before lack them and can still be read.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class LikenessRow(TypedDict):
    """A known defect that the implementation behaves like."""

    defect: str
    agrees: int
    cases: int
    basis: str
    confidence: str


class FailureRow(TypedDict):
    """A failure with its prose: `looks_like`, `measured` and `replay` are made from the data beside them."""

    required: str
    seen: str
    case: str
    property: str
    ratio: float | None
    looks_like: str
    replay: str
    limit: NotRequired[str]
    measured: NotRequired[list[str]]
    likenesses: NotRequired[list[LikenessRow]]
    compared: NotRequired[int]
    reproduction: NotRequired[str]
    no_reproduction: NotRequired[str]


class CriterionRow(TypedDict):
    """The record of a criterion with the text of the criterion."""

    id: str
    title: str
    statement: str
    why: str
    hint: str
    acceptance: list[str]
    sources: list[str]
    stands_on: list[str]
    level: str
    verdict: str
    reason: str
    failure: FailureRow | None
    examples: int
    floor: int
    regimes: dict[str, int]
    worst_ratio: float | None
    worst_case: str
    seconds: float
    seed: int
    profile: str
    dtype: str
    device: str
    text_hash: str
    link: str
    widened: float
    data: dict[str, Any]
    blocked_by: list[str]
    internal: bool
    features: NotRequired[list[str]]


class AcceptanceRow(TypedDict):
    """An acceptance criterion of a milestone and the musts that answer it."""

    id: str
    text: str
    criteria: list[str]
    verdict: str


class MilestoneRow(TypedDict):
    """A milestone with its verdict and its criteria."""

    id: str
    title: str
    summary: str
    verdict: str
    not_selected: list[str]
    acceptance: list[AcceptanceRow]
    criteria: list[CriterionRow]
    claimed: NotRequired[list[str]]


class SelectionRow(TypedDict):
    """Which criteria the run was asked for, and which of them left no record."""

    complete: bool
    total: int
    criteria: list[str]
    missing: list[str]


class ShardRow(TypedDict):
    """Which part of a run that was divided this is."""

    number: int
    of: int


class Document(TypedDict):
    """The report of one implementation."""

    format: int
    implementation: str
    spec_version: str
    profile: str | None
    seed: int | None
    policy: NotRequired[str]
    claims: NotRequired[str]
    packages: NotRequired[str]
    day: NotRequired[str]
    shard: NotRequired[ShardRow]
    environment: dict[str, str | None]
    selection: SelectionRow
    milestones: list[MilestoneRow]
