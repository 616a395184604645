"""Every fault that can be made out of a source by changing one thing, in an order that does not change."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attest.diagnosis.changes import changes
from attest.registry import UsageError, printable, sentence


@dataclass(frozen=True)
class Mutation:
    """One changed thing. `index` finds it in the same source, `id` also in one whose lines have moved."""

    file: str  # relative to the package
    index: int
    line: int
    function: str  # empty at the level of a module or class
    kind: str
    before: str
    after: str
    nth: int = 1  # of those in the package that read the same

    @property
    def id(self) -> str:
        """Eight digits that do not depend on lines or files."""
        text = "\0".join((self.function, self.before, self.after, str(self.nth)))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.before} -> {self.after}"

    def to_json(self) -> dict[str, Any]:
        """As results keep it."""
        return {"id": self.id, **asdict(self)}


def package_mutations(files: Sequence[Path], root: Path) -> list[Mutation]:
    """All of them, file by file."""
    found: list[Mutation] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for path in files:
        for index, change in enumerate(changes(_tree(path))):
            before, after = change.texts()
            if before == after:
                continue
            seen[change.function, before, after] += 1
            nth = seen[change.function, before, after]
            name = path.relative_to(root).as_posix()
            line = change.statement.lineno
            found.append(Mutation(name, index, line, change.function, change.kind, before, after, nth))
    return found


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{printable(path.name)} cannot be read as Python ({sentence(error)}); correct it"
        ) from None


def sample(mutations: Sequence[Mutation], count: int | None, seed: int) -> list[Mutation]:
    """So many of them by lot; a larger sample of the same seed begins with the smaller one."""
    return sorted(mutations, key=lambda m: _lot(m, seed))[:count]


def _lot(mutation: Mutation, seed: int) -> bytes:
    """Of this mutation alone, so that leaving others out does not change the order."""
    return hashlib.sha256(f"{seed} {mutation.id}".encode()).digest()


def mutated(source: str, index: int) -> ast.Module:
    """The tree of a source with one of its changes made; line numbers stay."""
    tree = ast.parse(source)
    change = next(c for i, c in enumerate(changes(tree)) if i == index)
    change.apply()
    return ast.fix_missing_locations(tree)
