"""Load the spec: milestones and criteria as data, refused with file, key and remedy when malformed."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from attest.contract import OPERATIONS

LEVELS = ("must", "should", "may")
CAPABILITIES = frozenset({"gradients", "torch", "cuda", "compiled"})
_REQUIRED = (
    "id",
    "title",
    "level",
    "acceptance",
    "statement",
    "why",
    "sources",
    "needs",
    "stands_on",
    "hint",
)
_OPTIONAL = ("symptoms",)


class SpecError(ValueError):
    """A spec file that cannot be used; the message names file, key and remedy."""


@dataclass(frozen=True)
class Criterion:
    """One acceptance criterion: what is required, why, and what it stands on."""

    id: str
    title: str
    level: str
    acceptance: tuple[str, ...]
    statement: str
    why: str
    sources: tuple[str, ...]
    needs: tuple[str, ...]
    stands_on: tuple[str, ...]
    hint: str
    symptoms: tuple[str, ...] = ()

    @property
    def milestone(self) -> str:
        """M1 for M1.4a."""
        return self.id.partition(".")[0]

    @property
    def text_hash(self) -> str:
        """Twelve hex digits of what the criterion requires; reports compare only where it agrees."""
        text = "\0".join((self.id, self.level, self.statement, *self.needs))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Milestone:
    """A named group of criteria with the acceptance criteria it answers."""

    id: str
    title: str
    summary: str
    operations: tuple[str, ...]
    acceptance: Mapping[str, str]
    criteria: tuple[Criterion, ...]


@dataclass(frozen=True)
class Spec:
    """All milestones, in the order of their files."""

    milestones: tuple[Milestone, ...]
    by_id: Mapping[str, Criterion] = field(repr=False)

    @property
    def version(self) -> str:
        """Twelve hex digits over every criterion's text."""
        hashes = "".join(c.text_hash for c in self.criteria)
        return hashlib.sha256(hashes.encode()).hexdigest()[:12]

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """Every criterion in order."""
        return tuple(c for m in self.milestones for c in m.criteria)

    def milestone(self, id: str) -> Milestone:
        """The milestone of this id."""
        return next(m for m in self.milestones if m.id == id)


def spec_directory() -> Path:
    """Where the spec lives: inside the package in a wheel, beside the harness in a checkout."""
    here = Path(__file__).resolve()
    packaged = here.parent / "spec_data"
    return packaged if packaged.is_dir() else here.parents[2] / "spec"


@cache
def load_spec(extra: tuple[Path, ...] = ()) -> Spec:
    """The spec of this package and of any further milestone files."""
    files = [*sorted(spec_directory().glob("m[0-9]*.toml")), *sorted(spec_directory().glob("compiled.toml"))]
    return read_spec((*files, *extra))


def read_spec(files: Iterable[Path]) -> Spec:
    """Read and check these files as one spec."""
    milestones: list[Milestone] = []
    by_id: dict[str, Criterion] = {}
    for path in files:
        milestone = _read_milestone(path)
        if milestone.id in {m.id for m in milestones}:
            raise SpecError(f"{path.name}: milestone.id={milestone.id!r} is taken; choose another id")
        for criterion in milestone.criteria:
            if criterion.id in by_id:
                raise SpecError(
                    f"{path.name}: criterion id={criterion.id!r} appears twice; ids are never reused"
                )
            by_id[criterion.id] = criterion
        milestones.append(milestone)
    _check_graph(by_id)
    return Spec(tuple(milestones), by_id)


def _read_milestone(path: Path) -> Milestone:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path.name}: cannot be read ({error.strerror}); check the path") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path.name}: not valid TOML ({error}); correct the syntax") from None
    head = data.get("milestone")
    if not isinstance(head, dict):
        raise SpecError(
            f"{path.name}: [milestone] is missing; add id, title, summary, operations, acceptance"
        )
    for key in ("id", "title", "summary", "operations", "acceptance"):
        if key not in head:
            raise SpecError(f"{path.name}: milestone.{key} is missing; add it")
    for operation in head["operations"]:
        if operation not in OPERATIONS:
            raise SpecError(f"{path.name}: milestone.operations has {operation!r}, which the contract lacks")
    criteria = tuple(_read_criterion(path, head, row) for row in data.get("criterion", []))
    return Milestone(
        head["id"], head["title"], head["summary"], tuple(head["operations"]), head["acceptance"], criteria
    )


def _read_criterion(path: Path, head: Mapping[str, Any], row: Mapping[str, Any]) -> Criterion:
    name = row.get("id", "(without id)")
    where = f"{path.name}: criterion {name}"
    for key in _REQUIRED:
        if key not in row:
            raise SpecError(f"{where}: {key} is missing; add it")
    for key in row:
        if key not in (*_REQUIRED, *_OPTIONAL):
            raise SpecError(f"{where}: {key} is not a key of a criterion; remove it or correct its spelling")
    if not str(name).startswith(f"{head['id']}."):
        raise SpecError(f"{where}: id={name!r} does not belong to {head['id']}; start it with {head['id']}.")
    if row["level"] not in LEVELS:
        raise SpecError(f"{where}: level={row['level']!r} is unknown; use one of {', '.join(LEVELS)}")
    for answer in row["acceptance"]:
        if answer not in head["acceptance"]:
            raise SpecError(f"{where}: acceptance={answer!r} is not in milestone.acceptance; add it there")
    for need in row["needs"]:
        if need not in OPERATIONS and need not in CAPABILITIES:
            raise SpecError(
                f"{where}: needs={need!r} is neither an operation nor one of {sorted(CAPABILITIES)}"
            )
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v.strip() for k, v in row.items()}
    return Criterion(**values)


def _check_graph(by_id: Mapping[str, Criterion]) -> None:
    for criterion in by_id.values():
        for below in criterion.stands_on:
            if below not in by_id:
                raise SpecError(
                    f"criterion {criterion.id}: stands_on={below!r} is unknown; name an existing criterion"
                )
    done: set[str] = set()

    def visit(id: str, path: tuple[str, ...]) -> None:
        if id in path:
            cycle = " -> ".join((*path[path.index(id) :], id))
            raise SpecError(f"criterion {id}: stands_on forms a cycle ({cycle}); remove one of its links")
        if id not in done:
            for below in by_id[id].stands_on:
                visit(below, (*path, id))
            done.add(id)

    for id in by_id:
        visit(id, ())
