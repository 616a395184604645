"""Judge mutated implementations, keep each result as it comes, and go on where an earlier run stopped."""

from __future__ import annotations

import ast
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attest.registry import UsageError
from attest.spec import load_spec
from attest.trials.judgement import STRICT, Judgement, Refusal, Step, judgement, ordered
from attest.trials.mutations import Mutation, mutated
from attest.trials.processes import Ended, each_apart
from attest.trials.reach import Reach
from attest.trials.sources import Package, fingerprint, harness_fingerprint, load_changed

CAUGHT, WEAKLY, SURVIVED, UNREACHED, BROKEN, OPEN, EXPLAINED = (
    "caught",
    "caught by a should or may",
    "survived",
    "not reached",
    "harness failed",
    "open",  # the first examples let it live, and it was not judged whole
    "explained",  # it has an annotation and was not judged
)

# Most faults die by the first examples of some criterion. All criteria are therefore asked for their first
# few, then for some more, before one is asked for all: the same examples in the same order.
FIRST_EXAMPLES = (4, 16)

# A mutant may loop for ever, and the machine may be busy: this much more than the implementation needs.
PATIENCE, LEAST_SECONDS = 10.0, 20.0


@dataclass(frozen=True)
class Mutant:
    """A mutation and the criteria that execute it. One that lives and was not judged whole stays open."""

    package: Package
    mutation: Mutation
    steps: tuple[Step, ...]
    seed: int
    processor_seconds: float = math.inf
    whole: bool = True


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


# What one mutant that a criterion has caught says of its next: of the same function, file, package. What
# nobody has caught yet is worth a try, a should or may half of one.
IN_FUNCTION, IN_FILE, ANYWHERE, UNTRIED = 1.0, 0.2, 0.02, 0.02
START_SECONDS = 0.1  # before the first example of a criterion


class Experience:
    """Which criteria have caught mutants, and where: those are asked first about the next one there."""

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.caught: Counter[tuple[str, ...]] = Counter()
        for outcome in outcomes:
            self.learn(outcome)

    def learn(self, outcome: Outcome) -> None:
        """Remember who caught it."""
        if outcome.refusal is not None:
            self.caught.update(_places(outcome.mutation, outcome.refusal.criterion))

    def ordered(self, mutant: Mutant) -> Mutant:
        """The same steps: the first examples of all, then more of them; the likeliest for its time first."""
        by_id = load_spec().by_id

        def rank(step: Step) -> tuple[float, float]:
            there, nearby, anywhere = (self.caught[p] for p in _places(mutant.mutation, step.criterion))
            likely = IN_FUNCTION * there + IN_FILE * nearby + ANYWHERE * anywhere
            likely += UNTRIED if by_id[step.criterion].level == "must" else UNTRIED / 2
            return step.examples or math.inf, (START_SECONDS + step.cost) / likely

        return replace(mutant, steps=tuple(sorted(mutant.steps, key=rank)))


def _places(mutation: Mutation, criterion: str) -> list[tuple[str, ...]]:
    return [(criterion, mutation.file, mutation.function), (criterion, mutation.file), (criterion,)]


def mutants(
    package: Package,
    mutations: Sequence[Mutation],
    reach: Sequence[Reach],
    seed: int,
    *,
    profile: str,
    examples: Sequence[int] = (0,),
    processor_seconds: float = math.inf,
) -> list[Mutant]:
    """Each mutation with its steps at this profile: so many examples of each criterion, 0 for all of them."""
    made = [[s for most in examples for s in _steps(m, reach, profile, most)] for m in mutations]
    whole = 0 in examples
    return [Mutant(package, m, tuple(s), seed, processor_seconds, whole) for m, s in zip(mutations, made)]


def _steps(mutation: Mutation, reach: Sequence[Reach], profile: str, most: int) -> Iterator[Step]:
    """Musts first, the quickest first. A change outside every function may concern everything."""
    place = (mutation.file, mutation.line)
    concerned = {r.criterion: r for r in reach if r.usable and (not mutation.function or place in r.lines)}
    for id in ordered(list(concerned), {id: r.seconds for id, r in concerned.items()}):
        cost = concerned[id].seconds
        yield Step(id, profile, LEAST_SECONDS + PATIENCE * cost, cost, most)


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
    found = judgement(
        implementation,
        mutant.steps,
        seed=mutant.seed,
        accepted=STRICT,
        any_level=True,
        processor_seconds=most,
    )
    return _outcome(mutation, found, whole=mutant.whole)


def _outcome(mutation: Mutation, found: Judgement, *, whole: bool) -> Outcome:
    first, note = found.first, "; ".join(found.harness_failed)
    verdict = OPEN if not whole else BROKEN if note else SURVIVED
    if first is not None:
        verdict = CAUGHT if first.by_a_must else WEAKLY
    return Outcome(mutation, verdict, first, len(found.judged), found.profile, found.seconds, note)


def judge_all(
    chosen: Sequence[Mutant],
    *,
    workers: int,
    deadline: float,
    experience: Experience,
    on_outcome: Callable[[Outcome], None],
) -> None:
    """Report each outcome as it comes. The deadline is one of the monotonic clock; none is begun after it."""

    def in_time() -> Iterator[Mutant]:
        for mutant in chosen:
            if time.monotonic() > deadline:
                return
            if mutant.steps:
                yield experience.ordered(mutant)
            else:
                on_outcome(Outcome(mutant.mutation, UNREACHED if mutant.whole else OPEN))

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
