"""What a run will do: implementations, criteria and settings, decided once and sent to every worker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from attest.contract import Milestone
from attest.judging.property import Property, load_properties
from attest.milestone_registry import bring_milestones
from attest.registry import parse_request
from attest.spec import Spec, load_spec


@dataclass(frozen=True)
class Target:
    """One implementation of the run: what was asked, which object, and why it is broken if it is."""

    label: str
    request: str
    name: str
    dtype: str | None = None
    device: str = "cpu"
    broken: str = ""
    milestones: tuple[Milestone, ...] = ()  # with the names of their operations


@dataclass(frozen=True)
class Plan:
    """Everything a worker must agree on with the controller."""

    targets: tuple[Target, ...]
    criteria: tuple[str, ...]
    profile: str = "standard"
    seed: int = 0
    reports: str = "reports"
    shared: str = ""
    case: str | None = None
    asked: bool = False
    seconds: float | None = None
    refused: tuple[str, ...] = ()

    def to_json(self) -> str:
        """One line for the workers."""
        return json.dumps(asdict(self), default=str)  # of a path

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The inverse of `to_json`."""
        data = json.loads(text)
        targets = tuple(
            Target(**{**t, "milestones": tuple(Milestone(**m) for m in t["milestones"])})
            for t in data.pop("targets")
        )
        criteria, refused = tuple(data.pop("criteria")), tuple(data.pop("refused"))
        return cls(targets=targets, criteria=criteria, refused=refused, **data)

    @property
    def spec(self) -> Spec:
        """The spec with the milestones that plugins add."""
        return load_spec(added(self.targets))

    def properties(self) -> Mapping[str, list[Property]]:
        """Every property by criterion, those of added milestones too."""
        bring(self.targets)
        return load_properties()


def added(targets: Iterable[Target]) -> tuple[Milestone, ...]:
    """The milestones that plugins add, each once."""
    return tuple({m.file: m for target in targets for m in target.milestones}.values())


def bring(targets: Iterable[Target]) -> None:
    """Take the milestones of these plugins into this process, with their operations and defects."""
    for target in targets:
        if target.milestones:
            bring_milestones(parse_request(target.request))
