"""What a run will do: implementations, criteria and settings, decided once and sent to every worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from attest.judging.property import Property, load_properties
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
    milestones: tuple[tuple[str, str], ...] = ()


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
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The inverse of `to_json`."""
        data = json.loads(text)
        targets = tuple(
            Target(**{**t, "milestones": tuple(map(tuple, t["milestones"]))}) for t in data.pop("targets")
        )
        criteria, refused = tuple(data.pop("criteria")), tuple(data.pop("refused"))
        return cls(targets=targets, criteria=criteria, refused=refused, **data)

    @property
    def spec(self) -> Spec:
        """The spec with the milestones that plugins add."""
        return load_spec(tuple(Path(path) for path, _ in added(self.targets)))

    def properties(self) -> Mapping[str, list[Property]]:
        """Every property by criterion, those of added milestones too."""
        for target in self.targets:
            folder = str(Path(parse_request(target.request).target).resolve().parent)
            if target.milestones and folder not in sys.path:
                sys.path.insert(0, folder)
        return load_properties(tuple(module for _, module in added(self.targets)))


def added(targets: Iterable[Target]) -> tuple[tuple[str, str], ...]:
    """Spec file and module of each milestone that plugins add, each once."""
    return tuple(dict.fromkeys(pair for target in targets for pair in target.milestones))
