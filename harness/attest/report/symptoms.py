"""From what one sees to what to look at: symptom, criterion, defect, hint."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from attest.spec import Criterion, Spec

# What each symptom of the spec looks like, and the quickest thing to rule out.
SEEN_AS = {
    "NaN": "The loss, a gradient or an output is NaN or infinite, at once or after some steps.",
    "flat loss": "The loss stays near its first value, about ln V, or falls a little: nothing is learned.",
    "good training but bad generation": "The training loss is fine; what the model generates is not.",
    "loss too low too soon": "The loss drops below what the task allows: the model sees its answer.",
    "nothing crashes but quality is poor": "Everything runs, shapes fit, and the result disappoints.",
    "repeated tokens": "Generation gives the same token or phrase again and again, or never ends.",
    "results change with batch": "A row gives other numbers alone than in a batch, or with other padding.",
    "right for short sequences, wrong for long ones": "Outputs are right up to some length and wrong beyond.",
    "shape errors": "An exception about shapes, or a shape that fits only for some sizes.",
    "slow generation": "Time per generated token grows with the length of the prefix.",
    "slow training": "A step takes far longer than the size of the model explains.",
    "uniform attention": "All weights of a row are about 1/S, whatever the input.",
}

_SMALL_WORDS = {
    "a",
    "an",
    "and",
    "are",
    "at",
    "but",
    "does",
    "in",
    "is",
    "it",
    "my",
    "not",
    "of",
    "the",
    "to",
}


def symptoms(spec: Spec) -> dict[str, list[Criterion]]:
    """Every symptom the spec names, with its criteria in order."""
    found: dict[str, list[Criterion]] = {}
    for criterion in spec.criteria:
        for symptom in criterion.symptoms:
            found.setdefault(symptom, []).append(criterion)
    return dict(sorted(found.items(), key=lambda pair: pair[0].lower()))


def matching(words: str, known: list[str]) -> list[str]:
    """The symptoms a person may mean, best first; spelling and word order do not matter much."""
    scored = [(_likeness(words.lower(), symptom), symptom) for symptom in known]
    return [symptom for score, symptom in sorted(scored, key=lambda s: -s[0]) if score >= 0.6]


def _likeness(words: str, symptom: str) -> float:
    name = symptom.lower()
    if words in name or name in words:
        return 1.0
    asked = [w for w in re.findall(r"\w+", words) if w not in _SMALL_WORDS]
    named, described = re.findall(r"\w+", name), re.findall(r"\w+", SEEN_AS.get(symptom, "").lower())
    hits = sum(1.0 if _has(named, w) else 0.8 if _has(described, w) else 0.0 for w in asked)
    by_word = 0.95 * hits / len(asked) if asked else 0.0
    return max(by_word, difflib.SequenceMatcher(None, words, name).ratio())


def _has(vocabulary: list[str], word: str) -> bool:
    """The word, a misspelling of it, or one with the same beginning (falling, falls)."""
    begins = len(word) > 3 and any(v[:4] == word[:4] for v in vocabulary)
    return begins or bool(difflib.get_close_matches(word, vocabulary, 1, 0.8))


def debugging_page(spec: Spec) -> str:
    """docs/debugging.md."""
    return "\n".join(_page(spec)) + "\n"


def _page(spec: Spec) -> Iterator[str]:
    from attest.judging.catalogue import killed_by

    found = symptoms(spec)
    yield "# Debugging: from symptom to cause\n"
    yield "Made from the spec by `make docs`; change the spec, not this file."
    yield "Run the criteria of a symptom (`pytest --impl=mine.py --criterion M1.5`): what fails says where."
    yield "`attest explain SYMPTOM` prints the same list, `attest explain M1.5` one criterion in full.\n"
    for symptom in found:
        yield f"- [{symptom}](#{_anchor(symptom)})"
    for symptom, criteria in found.items():
        yield f"\n## {symptom}\n"
        yield f"{SEEN_AS.get(symptom, '')}\n".lstrip("\n")
        yield "| criterion | defects that cause it | what to look at |"
        yield "|---|---|---|"
        for c in criteria:
            names = ", ".join(f"`{d.name}`" for d in killed_by(c.id)[:6]) or "none on file"
            yield f"| {c.id} {_cell(c.title)} | {names} | {_cell(c.hint)} |"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
