"""What a trial found, as a table for a person and as a document for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from attest.spec import load_spec
from attest.trials.presented import NEAR, NONE, RIGHT, WRONG, Tried

SHOWN = 6  # criteria named in a row of the table; the document has all


def lines(tried: Sequence[Tried]) -> Iterator[str]:
    """A row each, then those that went wrong with their reasons, then the counts."""
    width = max(len(t.presented.name) for t in tried)
    yield f"{'':<12} {'':<{width}}  refused by"
    for one in tried:
        yield f"{one.verdict:<12} {one.presented.name:<{width}}  {_by(one)}{_diagnosed(one)}".rstrip()
    yield ""
    for one in tried:
        yield from _complaint(one)
    yield from totals(tried)


def totals(tried: Sequence[Tried]) -> Iterator[str]:
    """How many faults were caught, how many correct ones pass, what the diagnosis was worth."""
    faulty = [t for t in tried if not t.presented.correct]
    correct = [t for t in tried if t.presented.correct]
    if faulty:
        caught = [t for t in faulty if t.verdict != "missed"]
        musts = sum(t.verdict == "caught" for t in faulty)
        share = f"{len(caught) / len(faulty):.0%}"
        yield f"faulty: {len(caught)} of {len(faulty)} caught ({share}), {musts} by a must"
    if correct:
        yield f"correct: {sum(t.verdict == 'passes' for t in correct)} of {len(correct)} pass"
    said = Counter(t.diagnosis for t in tried if t.diagnosis)
    if said:
        yield "diagnosis: " + ", ".join(f"{kind} {said[kind]}" for kind in (RIGHT, NEAR, WRONG, NONE))


def document(tried: Sequence[Tried], *, seeds: Sequence[int], profile: str) -> dict[str, Any]:
    """The same for a program."""
    return {
        "format": 1,
        "spec_version": load_spec().version,
        "seeds": list(seeds),
        "profile": profile,
        "implementations": [_row(one) for one in tried],
        "totals": list(totals(tried)),
    }


def _by(one: Tried) -> str:
    found, first = one.judgement, one.judgement.first
    if first is None:
        criteria = "1 criterion" if len(found.judged) == 1 else f"{len(found.judged)} criteria"
        return f"none of {criteria} at {found.profile}"
    others = [r for r in found.refusals if r is not first]
    text = f"{first.criterion} ({first.level}, {first.profile})"
    if others:
        names = [r.criterion for r in others[:SHOWN]]
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        text += f", {', '.join(names)}{more}"
    return text


def _diagnosed(one: Tried) -> str:
    if not one.said:
        return ""
    judged = f"{one.diagnosis}: " if one.diagnosis else ""
    return f"; looks like {judged}{one.said}"


def _complaint(one: Tried) -> Iterator[str]:
    if one.verdict == "missed":
        yield f"missed {one.presented.name}: {one.presented.fault or 'the file does not say its fault'}"
    if one.verdict == "refused" and one.judgement.first is not None:
        first = one.judgement.first
        seed = f" with seed {one.seed}" if one.seed else ""
        yield f"refused {one.presented.name}{seed}: {first.criterion} saw: {first.reason}"
    for failed in one.judgement.harness_failed:
        yield f"the harness failed on {one.presented.name} at {failed}"


def _row(one: Tried) -> dict[str, Any]:
    first = one.judgement.first
    return {
        **asdict(one.presented),
        "verdict": one.verdict,
        "seed": one.seed,
        "first": first.criterion if first else None,
        "diagnosis": one.diagnosis,
        "said": one.said,
        **asdict(one.judgement),
    }
