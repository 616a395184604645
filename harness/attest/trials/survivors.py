"""What is known of mutants that survive: a TOML file that says which change nothing and which are a limit.

    [[survivor]]
    function = "Hypotheses.best"
    before = "self.scores.topk(count)"
    after = "self.scores.topk(count + 1)"
    is = "equivalent"
    reason = "The caller reads the first place only."

`nth = 2` tells the second of several that read the same from the first.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attest.registry import UsageError, printable, sentence
from attest.trials.mutants import CAUGHT, WEAKLY, Outcome
from attest.trials.mutations import Mutation

EQUIVALENT, LIMIT = "equivalent", "limit"
Key = tuple[str, str, str, int]  # function, before, after, and which of those that read the same
KEYS = ("function", "before", "after", "is", "reason")


@dataclass(frozen=True)
class Annotation:
    """Why a survivor is no fault, or why nothing catches it."""

    function: str
    before: str
    after: str
    meaning: str
    reason: str
    nth: int = 1

    @property
    def key(self) -> Key:
        """What it is found by: neither file nor line, which change when code moves."""
        return self.function, self.before, self.after, self.nth


Annotations = Mapping[Key, Annotation]


def read_annotations(path: Path | None) -> Annotations:
    """Of this file; UsageError with file, key and remedy where it cannot be used."""
    if path is None:
        return {}
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path}: not valid TOML ({sentence(error)}); correct the syntax") from None
    for name in data:
        if name != "survivor":
            raise UsageError(f"{path}: {printable(name)[:40]!r} is unknown; write [[survivor]]")
    rows = data.get("survivor", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{path}: survivor is no list of tables; write [[survivor]]")
    found = [_annotation(path, row) for row in rows]
    return {annotation.key: annotation for annotation in found}


def key_of(mutation: Mutation) -> Key:
    """What an annotation finds a mutant by."""
    return mutation.function, mutation.before, mutation.after, mutation.nth


def annotation_of(outcome: Outcome, annotations: Annotations) -> Annotation | None:
    """What is said of this mutant."""
    return annotations.get(key_of(outcome.mutation))


def explained_last(mutations: Sequence[Mutation], annotations: Annotations) -> list[Mutation]:
    """The same; what becomes of those with an annotation is known best."""
    return sorted(mutations, key=lambda m: key_of(m) in annotations)


def contradicted(outcomes: Sequence[Outcome], annotations: Annotations) -> list[Annotation]:
    """Annotations of mutants that were caught: what they say is no longer true."""
    caught = [o for o in outcomes if o.verdict in (CAUGHT, WEAKLY)]
    return [a for o in caught if (a := annotation_of(o, annotations)) is not None]


def _annotation(path: Path, row: Mapping[str, Any]) -> Annotation:
    where = f"{path}: survivor before={row.get('before', '(none)')!r}"
    for key in KEYS:
        if not isinstance(row.get(key), str):
            raise UsageError(f"{where}: {key} is missing; add it as a string")
    for key in row:
        if key not in (*KEYS, "nth"):
            raise UsageError(f"{where}: {key} is not a key of a survivor; remove it")
    if row["is"] not in (EQUIVALENT, LIMIT):
        raise UsageError(f"{where}: is={row['is']!r} is unknown; use {EQUIVALENT} or {LIMIT}")
    if type(row.get("nth", 1)) is not int:
        raise UsageError(f"{where}: nth={row['nth']!r} is not a whole number; write for example nth = 2")
    if not row["reason"].strip():
        raise UsageError(f"{where}: reason is empty; say why")
    function, before, after, meaning, reason = (str(row[key]) for key in KEYS)
    return Annotation(function, before, after, meaning, reason, int(row.get("nth", 1)))
