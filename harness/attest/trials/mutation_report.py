"""How many mutants were caught: rates, by kind and by file, and every survivor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from attest.trials.mutants import BROKEN, CAUGHT, EXPLAINED, OPEN, WEAKLY, Outcome
from attest.trials.survivors import EQUIVALENT, LIMIT, Annotations, annotation_of, contradicted


@dataclass(frozen=True)
class Count:
    """Of some mutants."""

    all: int
    caught: int
    by_a_must: int
    equivalent: int

    @property
    def rate(self) -> float:
        """Of all that were judged."""
        return self.caught / self.all if self.all else 1.0

    @property
    def rate_of_faults(self) -> float:
        """Of those that are not annotated as equivalent."""
        faults = self.all - self.equivalent
        return self.caught / faults if faults else 1.0


def count(outcomes: Sequence[Outcome], annotations: Annotations) -> Count:
    """Caught, by a must, and known to change nothing."""
    caught = [o for o in outcomes if _is_caught(o)]
    same = [o for o in outcomes if not _is_caught(o) and _means(o, annotations) == EQUIVALENT]
    return Count(len(outcomes), len(caught), sum(o.verdict == CAUGHT for o in caught), len(same))


def lines(outcomes: Sequence[Outcome], annotations: Annotations, asked: int) -> Iterator[str]:
    """For a person: two tables, the survivors and the rates."""
    yield from _table("kind", outcomes, annotations, lambda o: o.mutation.kind)
    yield from _table("file", outcomes, annotations, lambda o: o.mutation.file)
    yield from _survivors(outcomes, annotations)
    for stale in contradicted(outcomes, annotations):
        said = f"{stale.function}: {stale.before} -> {stale.after}"
        yield f"caught, though annotated as {stale.meaning}; remove the annotation of {said}"
    yield from totals(outcomes, annotations, asked)


def totals(outcomes: Sequence[Outcome], annotations: Annotations, asked: int) -> Iterator[str]:
    """The rates in sentences."""
    found = count(outcomes, annotations)
    limits = sum(_means(o, annotations) == LIMIT for o in outcomes if not _is_caught(o))
    crashing = sum(o.crashes for o in outcomes if _is_caught(o))
    yield f"judged {found.all} of {asked} mutants in {sum(o.seconds for o in outcomes):.0f} s of judging"
    caught = f"caught {found.caught} ({found.rate:.1%}), {found.by_a_must} by a must"
    yield f"{caught}; {crashing} of them by an exception or by not ending"
    faults = f"without {found.equivalent} equivalent ones {found.rate_of_faults:.1%}"
    yield f"{faults}; {limits} survivors are known limits"
    if explained := sum(o.verdict == EXPLAINED for o in outcomes):
        yield f"{explained} of those that live were not judged: an annotation says what they are"
    if unsettled := sum(o.verdict == OPEN for o in outcomes):
        yield f"{unsettled} of those that live met the first examples of each criterion only"


def document(outcomes: Sequence[Outcome], annotations: Annotations, asked: int) -> dict[str, Any]:
    """The same for a program, with every survivor."""
    found = count(outcomes, annotations)
    return {
        "format": 1,
        "asked": asked,
        "judged": found.all,
        "caught": found.caught,
        "by_a_must": found.by_a_must,
        "equivalent": found.equivalent,
        "rate": round(found.rate, 4),
        "rate_of_faults": round(found.rate_of_faults, 4),
        "survivors": [_row(o, annotations) for o in outcomes if not _is_caught(o)],
    }


def open_survivors(outcomes: Sequence[Outcome], annotations: Annotations) -> list[Outcome]:
    """The survivors without an annotation."""
    return [o for o in outcomes if not _is_caught(o) and not _means(o, annotations)]


def _is_caught(outcome: Outcome) -> bool:
    return outcome.verdict in (CAUGHT, WEAKLY)


def _means(outcome: Outcome, annotations: Annotations) -> str:
    annotation = annotation_of(outcome, annotations)
    return annotation.meaning if annotation else ""


def _table(
    what: str, outcomes: Sequence[Outcome], annotations: Annotations, key: Callable[[Outcome], str]
) -> Iterator[str]:
    yield f"{what:<22}{'mutants':>8}{'caught':>8}{'must':>6}{'equivalent':>12}{'rate':>8}{'of faults':>11}"
    for name in sorted({key(o) for o in outcomes}):
        row = count([o for o in outcomes if key(o) == name], annotations)
        yield (
            f"{name:<22}{row.all:>8}{row.caught:>8}{row.by_a_must:>6}{row.equivalent:>12}"
            f"{row.rate:>8.0%}{row.rate_of_faults:>11.0%}"
        )
    yield ""


def _survivors(outcomes: Sequence[Outcome], annotations: Annotations) -> Iterator[str]:
    for outcome in sorted(outcomes, key=lambda o: (o.mutation.file, o.mutation.line)):
        if _is_caught(outcome):
            continue
        annotation = annotation_of(outcome, annotations)
        criteria = "1 criterion" if outcome.judged == 1 else f"{outcome.judged} criteria"
        tried = f"{criteria} at {outcome.profile}" if outcome.judged else "by no criterion"
        known = f" [{annotation.meaning}: {annotation.reason}]" if annotation else ""
        note = f" ({outcome.note})" if outcome.verdict == BROKEN else ""
        m = outcome.mutation
        yield f"{outcome.verdict} {m.id} {m.kind}, {m.function or 'module'}: {m} ({tried}){note}{known}"
    yield ""


def _row(outcome: Outcome, annotations: Annotations) -> dict[str, Any]:
    annotation = annotation_of(outcome, annotations)
    return {
        **outcome.mutation.to_json(),
        "verdict": outcome.verdict,
        "judged": outcome.judged,
        "profile": outcome.profile,
        "is": annotation.meaning if annotation else "",
        "reason": annotation.reason if annotation else "",
    }
