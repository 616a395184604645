"""Judge mutated implementations, keep each result as it comes, and go on where an earlier run stopped."""

from __future__ import annotations

import ast
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attest.registry import UsageError
from attest.spec import load_spec
from attest.trials.judgement import PROFILES, STRICT, Judgement, Refusal, Step, judgement, ordered
from attest.trials.mutations import Mutation, mutated
from attest.trials.processes import Ended, each_apart
from attest.trials.reach import Reach
from attest.trials.sources import Package, fingerprint, harness_fingerprint, load_changed

CAUGHT, WEAKLY, SURVIVED, UNREACHED, BROKEN = (
    "caught",
    "only should or may",
    "survived",
    "not reached",
    "harness failed",
)

# A mutant may loop for ever, and the machine may be busy: this much more than the implementation needs.
PATIENCE, LEAST_SECONDS = 10.0, 20.0


@dataclass(frozen=True)
class Mutant:
    """A mutation and the criteria that execute it."""

    package: Package
    mutation: Mutation
    steps: tuple[Step, ...]
    seed: int
    processor_seconds: float = math.inf


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant, as the file of results keeps it."""

    mutation: Mutation
    verdict: str
    refusal: Refusal | None = None
    judged: int = 0  # criteria that ran at the last profile tried
    profile: str = ""
    seconds: float = 0.0
    note: str = ""

    @property
    def crashes(self) -> bool:
        """Whether it was caught by an exception or by not ending, for which no property is needed."""
        said = self.refusal.reason if self.refusal else ""
        return " raised " in said or (self.refusal is not None and self.refusal.verdict == "error")

    def to_json(self) -> str:
        """One line."""
        row: dict[str, Any] = {**self.mutation.to_json(), "verdict": self.verdict, "note": self.note}
        row |= {"judged": self.judged, "profile": self.profile, "seconds": self.seconds}
        row["refusal"] = vars(self.refusal) if self.refusal else None
        return json.dumps(row)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """The inverse of `to_json`."""
        row = json.loads(text)
        names = ("file", "index", "line", "function", "kind", "before", "after", "nth")
        mutation = Mutation(**{name: row[name] for name in names})
        refusal = Refusal(**row["refusal"]) if row["refusal"] else None
        rest = {name: row[name] for name in ("judged", "profile", "seconds", "note")}
        return cls(mutation, row["verdict"], refusal, **rest)


class Experience:
    """Which criteria have caught mutants of a function: they are asked first about the next one of it."""

    def __init__(self) -> None:
        self.caught: Counter[tuple[str, str, str]] = Counter()

    def learn(self, outcome: Outcome) -> None:
        """Remember who caught it."""
        if outcome.refusal is not None:
            self.caught[*_home(outcome.mutation), outcome.refusal.criterion] += 1

    def ordered(self, mutant: Mutant) -> Mutant:
        """The same criteria: profile by profile, musts first, the likeliest first, else as they were."""
        by_id = load_spec().by_id

        def rank(step: Step) -> tuple[int, bool, int]:
            before = self.caught[*_home(mutant.mutation), step.criterion]
            return PROFILES.index(step.profile), by_id[step.criterion].level != "must", -before

        return replace(mutant, steps=tuple(sorted(mutant.steps, key=rank)))


def _home(mutation: Mutation) -> tuple[str, str]:
    return mutation.file, mutation.function


def mutants(
    package: Package,
    mutations: Sequence[Mutation],
    reaches: Sequence[Sequence[Reach]],
    seed: int,
    processor_seconds: float = math.inf,
) -> list[Mutant]:
    """Each mutation with its steps: musts first, the quickest first, profile by profile."""
    return [
        Mutant(package, m, tuple(s for reach in reaches for s in _steps(m, reach)), seed, processor_seconds)
        for m in mutations
    ]


def _steps(mutation: Mutation, reach: Sequence[Reach]) -> Iterator[Step]:
    """A change outside every function may concern everything."""
    place = (mutation.file, mutation.line)
    concerned = {r.criterion: r for r in reach if r.usable and (not mutation.function or place in r.lines)}
    for id in ordered(list(concerned), {id: r.seconds for id, r in concerned.items()}):
        yield Step(id, concerned[id].profile, LEAST_SECONDS + PATIENCE * concerned[id].seconds)


def judge_mutant(mutant: Mutant) -> Outcome:
    """Import the mutated package and judge it; one that cannot be imported is caught by any criterion."""
    mutation = mutant.mutation
    path = mutant.package.path(mutation.file)

    def change(source: str) -> ast.Module:
        return mutated(source, mutation.index)

    try:
        implementation = load_changed(mutant.package, {path: change})
    except Exception as error:
        first = mutant.steps[0]
        return Outcome(mutation, CAUGHT, Refusal(first.criterion, "must", first.profile, "error", str(error)))
    most = mutant.processor_seconds
    found = judgement(implementation, mutant.steps, seed=mutant.seed, accepted=STRICT, processor_seconds=most)
    return _outcome(mutation, found)


def _outcome(mutation: Mutation, found: Judgement) -> Outcome:
    first, note = found.first, "; ".join(found.harness_failed)
    verdict = BROKEN if note else SURVIVED
    if first is not None:
        verdict = CAUGHT if first.by_a_must else WEAKLY
    return Outcome(mutation, verdict, first, len(found.judged), found.profile, found.seconds, note)


def judge_all(
    chosen: Sequence[Mutant], *, workers: int, seconds: float | None, on_outcome: Callable[[Outcome], None]
) -> None:
    """Report each outcome as it comes; no new mutant is begun after so many seconds."""
    deadline, experience = None if seconds is None else time.monotonic() + seconds, Experience()

    def in_time() -> Iterator[Mutant]:
        for mutant in chosen:
            if deadline is not None and time.monotonic() > deadline:
                return
            if mutant.steps:
                yield experience.ordered(mutant)
            else:
                on_outcome(Outcome(mutant.mutation, UNREACHED))

    for mutant, result in each_apart(judge_mutant, in_time(), workers=workers):
        outcome = _ended(mutant, result) if isinstance(result, Ended) else result
        experience.learn(outcome)
        on_outcome(outcome)


def _ended(mutant: Mutant, ended: Ended) -> Outcome:
    refusal = Refusal("unknown", "must", mutant.steps[0].profile, "error", f"the implementation {ended.how}")
    return Outcome(mutant.mutation, CAUGHT, refusal)


class Results:
    """A file with a line for what was judged and a line for each outcome."""

    def __init__(self, path: Path, package: Package, seed: int, profile: str) -> None:
        self.path = path
        self.about = {
            "implementation": fingerprint(package.files),
            "harness": harness_fingerprint(),
            "seed": seed,
            "profile": profile,
        }
        self.outcomes: dict[str, Outcome] = {}

    def begin(self) -> None:
        """An empty file with the line that says what is judged."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.about) + "\n", encoding="utf-8")

    def resume(self, *, another_harness: bool = False) -> None:
        """Read what an earlier run kept, if it judged the same; UsageError where it did not."""
        if not self.path.is_file():
            raise UsageError(f"{self.path} does not exist; run without --resume and --again first")
        first, *rows = self.path.read_text(encoding="utf-8").splitlines()
        changed = [name for name, value in self.about.items() if _kept(first).get(name) != value]
        if changed and not (another_harness and set(changed) <= {"harness", "profile"}):
            what = " and ".join(changed)
            raise UsageError(
                f"{self.path} is of another {what}; run without --resume and --again to start anew"
            )
        for row in rows:
            if row.endswith("}"):  # the last line of a run that was killed may be cut off
                outcome = Outcome.from_json(row)
                self.outcomes[outcome.mutation.id] = outcome
        self.begin()
        for outcome in self.outcomes.values():
            self._write(outcome)

    def add(self, outcome: Outcome) -> None:
        """Keep one more."""
        self.outcomes[outcome.mutation.id] = outcome
        self._write(outcome)

    def _write(self, outcome: Outcome) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(outcome.to_json() + "\n")


def _kept(line: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(line)
    except ValueError:
        return {}
    return found
