"""What a run will do: implementations, criteria and settings, decided once and sent to every worker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from attest.contract import Milestone
from attest.judging.property import Property, load_properties
from attest.milestone_registry import bring_milestones
from attest.registry import Request, read_request
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
    path: str = ""  # of a file, absolute: changing the directory must not affect the others
    sealed: bool = False  # judged from another process, in which the harness cannot be imported

    def loading(self) -> Request:
        """What to import, wherever this process is."""
        request = read_request(self.request)
        return replace(request, target=self.path) if self.path else request


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
    done: tuple[tuple[str, str], ...] = ()  # label and criterion of what an earlier run has judged
    shard: tuple[int, int] | None = None  # the number of this part, from 1, and how many there are

    def chosen(self, label: str) -> tuple[str, ...]:
        """The criteria that this run answers for, of one implementation."""
        if self.shard is None:
            return self.criteria
        number, count = self.shard
        return tuple(id for id in self.criteria if _shard_of(id, label, count) == number)

    def waiting(self, label: str) -> tuple[str, ...]:
        """The criteria that have not been judged yet."""
        return tuple(id for id in self.chosen(label) if (label, id) not in self.done)

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
        for name in ("criteria", "refused"):
            data[name] = tuple(data[name])
        data["done"] = tuple(map(tuple, data["done"]))
        data["shard"] = tuple(data["shard"]) if data["shard"] else None
        return cls(targets=targets, **data)

    @property
    def spec(self) -> Spec:
        """The spec with the milestones that plugins add."""
        return load_spec(added(self.targets))

    def properties(self) -> Mapping[str, list[Property]]:
        """Every property by criterion, those of added milestones too."""
        bring(self.targets)
        return load_properties()


def _shard_of(id: str, label: str, count: int) -> int:
    """By a hash of both, so that a new criterion moves none of the others to another machine."""
    digest = hashlib.blake2b(f"{id}\0{label}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % count + 1


def added(targets: Iterable[Target]) -> tuple[Milestone, ...]:
    """The milestones that plugins add, each once."""
    return tuple({m.file: m for target in targets for m in target.milestones}.values())


def bring(targets: Iterable[Target]) -> None:
    """Take the milestones of these plugins into this process, with their operations and defects."""
    for target in targets:
        if target.milestones:
            bring_milestones(target.loading())
