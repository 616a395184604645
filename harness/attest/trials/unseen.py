"""What the diagnosis is worth on faults that nobody planned: mutants of a source, each with its truth.

    python -m attest.trials.unseen eager tests/unseen/eager.toml [reports/mutation/eager.quick.json]

The file says of each mutant, found by its text as in `attest.trials.survivors`, which criteria are a right
place to begin (`cause`), which names of known defects are right (`right`) and which would help (`near`).
The criteria are put to it in the order of what stands on what, so the first must that fails is the one that
a report names first to fix; that failure is then diagnosed as a report does it. With the map that
`attest mutate` left of what each criterion executes, the criteria that do not execute the fault are left out.
"""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attest.judging.property import costly_criteria
from attest.spec import load_spec
from attest.trials.judgement import SECONDS, STRICT, Step, judgement
from attest.trials.mutations import Mutation, mutated, package_mutations
from attest.trials.presented import NEAR, NONE, RIGHT, WRONG, named_by
from attest.trials.processes import each_apart
from attest.trials.sources import Package, load_changed, package_of

MILESTONES = ("M1", "M2", "M3", "M4", "M5", "M6")


@dataclass(frozen=True)
class Fault:
    """A mutant and what would be true of it."""

    package: Package
    mutation: Mutation
    cause: tuple[str, ...]
    right: tuple[str, ...]
    near: tuple[str, ...]
    concerned: frozenset[str] | None = None  # the criteria that execute it; None: not known


@dataclass(frozen=True)
class Diagnosed:
    """What was said of one fault."""

    fault: Fault
    first: str = ""  # the criterion that a report names first to fix; empty where none fails
    reason: str = ""
    named: tuple[str, ...] = ()

    @property
    def begins_right(self) -> bool:
        """Whether the first to fix is a cause."""
        return self.first in self.fault.cause

    @property
    def worth(self) -> str:
        """Whether a name is right, near or wrong; none where there is no name."""
        if not self.named:
            return NONE
        if set(self.named) & set(self.fault.right):
            return RIGHT
        return NEAR if set(self.named) & set(self.fault.near) else WRONG


def read_faults(request: str, path: Path, reach: Path | None) -> list[Fault]:
    """The mutants that the file speaks of and the source still has."""
    package = package_of(request)
    places = json.loads(reach.read_text(encoding="utf-8"))["reach"] if reach else None
    by_text = {
        (m.function, m.before, m.after, m.nth): m for m in package_mutations(package.files, package.root)
    }
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    found = [(by_text.get(_key(row)), row) for row in rows]
    return [_fault(package, mutation, row, places) for mutation, row in found if mutation is not None]


def _fault(package: Package, mutation: Mutation, row: Mapping[str, Any], places: Any) -> Fault:
    said = {key: tuple(row.get(key, ())) for key in ("cause", RIGHT, NEAR)}
    return Fault(package, mutation, **said, concerned=_concerned(mutation, places))


def _concerned(mutation: Mutation, places: Sequence[Mapping[str, Any]] | None) -> frozenset[str] | None:
    if places is None or not mutation.function:
        return None
    place = [mutation.file, mutation.line]
    return frozenset(row["criterion"] for row in places if place in row["lines"])


def _key(row: Mapping[str, Any]) -> tuple[str, str, str, int]:
    return row["function"], row["before"], row["after"], row.get("nth", 1)


def in_order() -> list[str]:
    """The criteria that neither train nor time, each after those it stands on, else as in the spec."""
    by_id, costly = load_spec().by_id, costly_criteria()
    ordered: dict[str, None] = {}

    def visit(id: str) -> None:
        for below in by_id[id].stands_on:
            visit(below)
        ordered.setdefault(id)

    for id in by_id:
        visit(id)
    return [id for id in ordered if id not in costly and id.partition(".")[0] in MILESTONES]


def diagnosed(fault: Fault) -> Diagnosed:
    """Judge the mutant until a must fails, and ask what that failure looks like."""

    def change(source: str) -> ast.Module:
        return mutated(source, fault.mutation.index)

    implementation = load_changed(fault.package, {fault.package.path(fault.mutation.file): change})
    ids = [id for id in in_order() if fault.concerned is None or id in fault.concerned]
    steps = [Step(id, "quick", SECONDS["quick"]) for id in ids]
    refusal = judgement(implementation, steps, accepted=STRICT).first
    if refusal is None:
        return Diagnosed(fault)
    _, names = named_by(implementation, refusal, seed=0)
    return Diagnosed(fault, refusal.criterion, refusal.reason, names)


def lines(found: Sequence[Diagnosed]) -> Iterator[str]:
    """A line for each fault, then the shares."""
    for one in found:
        start = "begins" if one.begins_right else "astray"
        text = f"{one.fault.mutation.id} {start} at {one.first or 'nothing'}, {one.worth}"
        yield f"{text}: {', '.join(one.named) or '-'} | {one.fault.mutation} | {one.reason[:90]}"
    caught = [one for one in found if one.first]
    worth = Counter(one.worth for one in caught)
    helpful = worth[RIGHT] + worth[NEAR]
    yield f"{len(caught)} of {len(found)} fail a must at quick"
    counted = ", ".join(f"{kind} {worth[kind]}" for kind in (RIGHT, NEAR, WRONG, NONE))
    yield f"{counted}: {_share(helpful, caught)} help"
    yield f"first to fix is a cause: {_share(sum(one.begins_right for one in caught), caught)}"


def _share(count: int, of: Sequence[Any]) -> str:
    return f"{count} of {len(of)} ({count / max(1, len(of)):.0%})"


def main(arguments: Sequence[str]) -> int:
    """Print what is said of each fault as it comes, and the shares."""
    request, path, *rest = arguments
    faults = read_faults(request, Path(path), Path(rest[0]) if rest else None)
    found = []
    for fault, result in each_apart(diagnosed, faults, workers=2):
        found.append(result if isinstance(result, Diagnosed) else Diagnosed(fault))
        print(next(lines(found[-1:])), file=sys.stderr, flush=True)
    print("\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
