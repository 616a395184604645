"""Load the spec: milestones and criteria as data, refused with file, key and remedy when malformed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from attest.contract import OPERATIONS, Milestone
from attest.order import criterion_order, milestone_order
from attest.spec_file import SpecError, read_file, refuse

__all__ = ["Criterion", "MilestoneSpec", "Spec", "SpecError", "load_spec", "read_spec", "spec_directory"]


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
    features: tuple[str, ...] = ()  # what it concerns; where none of them is claimed it is not asked
    seen_in: tuple[str, ...] = ()  # whole models; one that is offered stands for a part that is not

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
class MilestoneSpec:
    """A named group of criteria with the acceptance criteria it answers."""

    id: str
    title: str
    summary: str
    operations: tuple[str, ...]
    acceptance: Mapping[str, str]
    criteria: tuple[Criterion, ...]
    file: Path


@dataclass(frozen=True)
class Spec:
    """All milestones in order: M2 before M10, MC after those with a number."""

    milestones: tuple[MilestoneSpec, ...]
    by_id: Mapping[str, Criterion] = field(repr=False)

    @cached_property
    def version(self) -> str:
        """Twelve hex digits over every criterion's text."""
        hashes = "".join(c.text_hash for c in self.criteria)
        return hashlib.sha256(hashes.encode()).hexdigest()[:12]

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """Every criterion in order."""
        return tuple(c for m in self.milestones for c in m.criteria)

    @property
    def operations(self) -> dict[str, list[str]]:
        """The operations of each milestone; one that several name belongs to the first of them."""
        owner = {name: m.id for m in reversed(self.milestones) for name in m.operations}
        return {m.id: [o for o in m.operations if owner[o] == m.id] for m in self.milestones}

    def milestone(self, id: str) -> MilestoneSpec:
        """The milestone of this id."""
        return next(m for m in self.milestones if m.id == id)


def spec_directory() -> Path:
    """Where the spec lives: inside the package in a wheel, beside the harness in a checkout."""
    here = Path(__file__).resolve()
    packaged = here.parent / "spec_data"
    return packaged if packaged.is_dir() else here.parents[2] / "spec"


def load_spec(extra: tuple[Milestone, ...] = ()) -> Spec:
    """The spec of every milestone that this process knows, and of these further ones."""
    from attest.milestone_registry import milestones

    found = {m.file: m for m in (*milestones(), *extra)}
    names = dict.fromkeys(name for m in found.values() for name in m.operation_names)
    return _load(tuple(found), tuple(names))


@cache
def _load(files: tuple[Path, ...], operations: tuple[str, ...]) -> Spec:
    return read_spec(files, operations)


def read_spec(files: Iterable[Path], operations: Iterable[str] = ()) -> Spec:
    """Read and check these files as one spec. `operations` are allowed beside those of the contract."""
    milestones: list[MilestoneSpec] = []
    by_id: dict[str, Criterion] = {}
    known = {*OPERATIONS, *operations}
    for path in files:
        head, rows = read_file(path, known)
        if head["id"] in {m.id for m in milestones}:
            refuse(path, f"milestone.id={head['id']!r} is taken; choose another id")
        criteria = tuple(sorted((Criterion(**row) for row in rows), key=lambda c: criterion_order(c.id)))
        for criterion in criteria:
            if criterion.id in by_id:
                refuse(path, f"criterion id={criterion.id!r} appears twice; ids are never reused")
            by_id[criterion.id] = criterion
        milestones.append(MilestoneSpec(**head, criteria=criteria, file=path))
    milestones.sort(key=lambda milestone: milestone_order(milestone.id))
    spec = Spec(tuple(milestones), {c.id: c for m in milestones for c in m.criteria})
    _check_graph(spec)
    return spec


def _check_graph(spec: Spec) -> None:
    for criterion in spec.criteria:
        for below in criterion.stands_on:
            if below not in spec.by_id:
                wrong = (
                    f"criterion {criterion.id}: stands_on={below!r} is unknown; name an existing criterion"
                )
                refuse(spec.milestone(criterion.milestone).file, wrong)
    try:
        TopologicalSorter({c.id: c.stands_on for c in spec.criteria}).prepare()
    except CycleError as error:
        cycle = error.args[1][:0:-1]  # each stands on the next; its first entry is its last one too
        start = cycle.index(min(cycle, key=criterion_order))
        path = " -> ".join((*cycle[start:], *cycle[:start], cycle[start]))
        wrong = f"criterion {cycle[start]}: stands_on forms a cycle ({path}); remove one of its links"
        refuse(spec.milestone(spec.by_id[cycle[start]].milestone).file, wrong)
