"""What the diagnosis is worth on faults that nobody planned, each with its truth.

    python -m attest.trials.unseen eager tests/unseen/eager.toml [reports/mutation/eager.quick.json]
    python -m attest.trials.unseen eager tests/unseen/field.toml at=cause

The file says of each fault what it is: a mutant, found by its text as in `attest.trials.survivors`, or a
text (`old`) of a file that becomes another (`new`). And what is true of it: which criteria are a right place
to begin (`cause`), which names of known defects are right (`right`) and which would help (`near`), in which
methods of the reference the same fault would stand (`part`), which settings it depends on (`when`) and which
relations to the right answers it has (`how`). These are written before the diagnosis is asked.

The criteria are put to it in the order of what stands on what, so the first must that fails is the one that
a report names first to fix; that failure is then diagnosed as a report does it. With the map that
`attest mutate` left of what each criterion executes, the criteria that do not execute the fault are left out.
With `at=cause` only the criteria under `cause` are put to it, which says nothing of the first to fix;
`workers=1` judges one fault at a time, `last=14` only the last 14 of the file.
"""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attest.diagnosis.executed import overridden
from attest.judging.catalogue import defects
from attest.judging.property import costly_criteria
from attest.registry import UsageError
from attest.spec import load_spec
from attest.trials.judgement import SECONDS, STRICT, Step, judgement
from attest.trials.mutations import Mutation, mutated, package_mutations
from attest.trials.presented import NEAR, NONE, RIGHT, WRONG, Said, said_of
from attest.trials.processes import each_apart
from attest.trials.sources import Package, load_changed, package_of

MILESTONES = ("M1", "M2", "M3", "M4", "M5", "M6")


@dataclass(frozen=True)
class Fault:
    """A changed source and what would be true of it."""

    package: Package
    path: Path
    text: str  # what was changed, for the reader
    change: Mutation | tuple[str, str]
    cause: tuple[str, ...]
    right: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    part: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    how: tuple[str, ...] = ()
    concerned: frozenset[str] | None = None  # the criteria that execute it; None: not known

    def changed(self, source: str) -> ast.Module:
        """The tree of the faulty source."""
        if isinstance(self.change, Mutation):
            return mutated(source, self.change.index)
        old, new = self.change
        return ast.parse(source.replace(old, new))


@dataclass(frozen=True)
class Diagnosed:
    """What was said of one fault."""

    fault: Fault
    first: str = ""  # the criterion that a report names first to fix; empty where none fails
    reason: str = ""
    said: Said = field(default_factory=Said)

    @property
    def begins_right(self) -> bool:
        """Whether the first to fix is a cause."""
        return self.first in self.fault.cause

    @property
    def worth(self) -> str:
        """Right where a name or the changed method is, near where the class, a setting or a relation is.

        Wrong where something was named and nothing of it is true; none where nothing was. A size (one capital
        letter), which parts are wrong, and a relation that no label has neither help nor mislead.
        """
        fault, said = self.fault, self.said
        classes = {place.partition(".")[0] for place in fault.part}
        told = said.condition
        settings = {name for name in told.settings if len(name) > 1} if told else set()
        if set(said.names) & set(fault.right) or set(said.places) & set(fault.part):
            return RIGHT
        places = {place.partition(".")[0] for place in (*said.places, *_places_of(said.names))}
        if (
            set(said.names) & set(fault.near)
            or places & classes
            or (settings and settings <= set(fault.when))
            or {relation.relation for relation in said.relations} & set(fault.how)
        ):
            return NEAR
        return WRONG if said.names or said.places or settings else NONE


def _places_of(names: Sequence[str]) -> set[str]:
    """The methods of the reference that known defects override."""
    known = defects()
    return {place for name in names if name in known for place in overridden(known[name].piece)}


def read_faults(request: str, path: Path, reach: Path | None) -> list[Fault]:
    """Those that the file speaks of; an error where the source has changed so that one is not found."""
    package = package_of(request)
    places = json.loads(reach.read_text(encoding="utf-8"))["reach"] if reach else None
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    # To list the mutants takes seconds; faults that are given as text need none.
    mutants = any("old" not in row for row in rows)
    listed = package_mutations(package.files, package.root) if mutants else ()
    by_text = {(m.function, m.before, m.after, m.nth): m for m in listed}
    return [_fault(package, row, by_text, places) for row in rows]


def _fault(
    package: Package,
    row: Mapping[str, Any],
    by_text: Mapping[tuple[str, str, str, int], Mutation],
    places: Any,
) -> Fault:
    keys = ("cause", RIGHT, NEAR, "part", "when", "how")
    said: dict[str, Any] = {key: tuple(row.get(key, ())) for key in keys}
    if "old" in row:
        path = package.path(row["file"])
        if path.read_text(encoding="utf-8").count(row["old"]) != 1:
            raise UsageError(f"old={row['old']!r} is not once in {row['file']}; write what stands there now")
        return Fault(package, path, row["fault"], (row["old"], row["new"]), **said)
    key = row["function"], row["before"], row["after"], row.get("nth", 1)
    if key not in by_text:
        raise UsageError(
            f"before={row['before']!r} of {row['function']} is no longer there; write the new text"
        )
    mutation = by_text[key]
    path = package.path(mutation.file)
    return Fault(package, path, str(mutation), mutation, **said, concerned=_concerned(mutation, places))


def _concerned(mutation: Mutation, places: Sequence[Mapping[str, Any]] | None) -> frozenset[str] | None:
    if places is None or not mutation.function:
        return None
    place = [mutation.file, mutation.line]
    return frozenset(row["criterion"] for row in places if place in row["lines"])


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
    """Judge the faulty source until a must fails, and ask what that failure looks like."""
    implementation = load_changed(fault.package, {fault.path: fault.changed})
    ids = [id for id in in_order() if fault.concerned is None or id in fault.concerned]
    return _diagnosed(fault, implementation, ids)


def diagnosed_at_cause(fault: Fault) -> Diagnosed:
    """The same with the criteria alone that are its cause."""
    return _diagnosed(fault, load_changed(fault.package, {fault.path: fault.changed}), fault.cause)


def _diagnosed(fault: Fault, implementation: Any, ids: Sequence[str]) -> Diagnosed:
    steps = [Step(id, "quick", SECONDS["quick"]) for id in ids]
    refusal = judgement(implementation, steps, accepted=STRICT).first
    if refusal is None:
        return Diagnosed(fault)
    return Diagnosed(fault, refusal.criterion, refusal.reason, said_of(implementation, refusal, seed=0))


def lines(found: Sequence[Diagnosed]) -> Iterator[str]:
    """Two lines for each fault, then the shares."""
    for one in found:
        start = "begins" if one.begins_right else "astray"
        begun = f"{one.worth:<6} {start} at {one.first or 'nothing'}"
        yield f"{begun} | {one.fault.text[:160]} | {one.reason[:90]}"
        yield f"       {one.said.text or '-'}"
    caught = [one for one in found if one.first]
    worth = Counter(one.worth for one in caught)
    helpful = worth[RIGHT] + worth[NEAR]
    yield f"{len(caught)} of {len(found)} fail a must at quick"
    counted = ", ".join(f"{kind} {worth[kind]}" for kind in (RIGHT, NEAR, WRONG, NONE))
    yield f"{counted}: {_share(helpful, caught)} help, {_share(worth[WRONG], caught)} mislead"
    yield f"first to fix is a cause: {_share(sum(one.begins_right for one in caught), caught)}"


def _share(count: int, of: Sequence[Any]) -> str:
    return f"{count} of {len(of)} ({count / max(1, len(of)):.0%})"


def _number(words: Sequence[str], name: str, default: int) -> int:
    """The number of `name=3` among the words."""
    start = f"{name}="
    return next((int(word.removeprefix(start)) for word in words if word.startswith(start)), default)


def main(arguments: Sequence[str]) -> int:
    """Print what is said of each fault as it comes, and the shares."""
    request, path, *rest = arguments
    judged = diagnosed_at_cause if "at=cause" in rest else diagnosed
    reach = next((Path(word) for word in rest if word.endswith(".json")), None)
    workers, last = _number(rest, "workers", 2), _number(rest, "last", 0)
    found = []
    for fault, result in each_apart(judged, read_faults(request, Path(path), reach)[-last:], workers=workers):
        found.append(result if isinstance(result, Diagnosed) else Diagnosed(fault))
        print("\n".join(list(lines(found[-1:]))[:2]), file=sys.stderr, flush=True)
    print("\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
