"""Read one spec file. A malformed one is refused in one sentence with file, key and remedy."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

from attest.contract.features import FEATURES
from attest.registry import printable

LARGEST_FILE = 4_000_000  # bytes
LEVELS = ("must", "should", "may")
CAPABILITIES = frozenset({"gradients", "torch", "cuda", "compiled"})
TEXT, LIST, TABLE = "a text in quotes", "a list of texts", "a table of texts"
MILESTONE = {"id": TEXT, "title": TEXT, "summary": TEXT, "operations": LIST, "acceptance": TABLE}
CRITERION = {
    "id": TEXT,
    "title": TEXT,
    "level": TEXT,
    "acceptance": LIST,
    "statement": TEXT,
    "why": TEXT,
    "sources": LIST,
    "needs": LIST,
    "stands_on": LIST,
    "hint": TEXT,
}
OPTIONAL = {"symptoms": LIST, "features": LIST, "seen_in": LIST}
Table = Mapping[str, Any]


class SpecError(ValueError):
    """A spec file that cannot be used; the message names file, key and remedy."""


def read_file(path: Path, operations: Collection[str]) -> tuple[Table, list[Table]]:
    """The milestone and its criteria, each key there and of its type; `operations` are those that exist."""
    data = parsed(path, refuse)
    head = data.get("milestone")
    if not isinstance(head, dict):
        refuse(path, f"[milestone] is missing; add {', '.join(MILESTONE)}")
    milestone = _typed(path, "milestone.", head, MILESTONE)
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", milestone["id"]):
        refuse(
            path,
            f"milestone.id={head['id']!r} is not an id; use a capital, then letters and digits, as in M12",
        )
    for operation in milestone["operations"]:
        if operation not in operations:
            refuse(
                path, f"milestone.operations has {operation!r}, which the contract lacks; name an operation"
            )
    rows = data.get("criterion", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        refuse(path, "criterion is not a list of tables; begin each criterion with [[criterion]]")
    if not rows:
        refuse(path, "it has no criterion; begin each one with [[criterion]]")
    return milestone, [_criterion(path, milestone, row, operations) for row in rows]


def refuse(path: Path, rule: str) -> NoReturn:
    """Raise a SpecError that begins with the file's name."""
    raise SpecError(printable(f"{path.name}: {rule}"))


def parsed(
    path: Path, refuse: Callable[[Path, str], NoReturn], largest: int = LARGEST_FILE
) -> dict[str, Any]:
    """The tables of a TOML file; `refuse` is called with the reason where it cannot be read."""
    try:
        if path.stat().st_size > largest:
            refuse(path, f"is larger than {largest} bytes; this is no file of a spec")
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        refuse(path, f"cannot be read ({error.strerror}); check the path")
    except UnicodeDecodeError as error:
        refuse(path, f"byte {error.start} is not UTF-8; save the file as UTF-8")
    except RecursionError:
        refuse(path, "not valid TOML (nested too deeply); correct the syntax")
    except tomllib.TOMLDecodeError as error:
        refuse(path, f"not valid TOML ({error}); correct the syntax")
    except ValueError as error:
        if type(error) is not ValueError:
            raise  # what `refuse` raised
        refuse(path, f"not valid TOML ({error}); correct the syntax")  # a number that Python refuses to read


def _criterion(path: Path, milestone: Table, given: Table, operations: Collection[str]) -> Table:
    where = f"criterion {given.get('id', '(without id)')}: "
    for key in given:
        if key not in CRITERION | OPTIONAL:
            refuse(path, f"{where}{key} is not a key of a criterion; remove it or correct its spelling")
    row = _typed(path, where, given, {**CRITERION, **{k: v for k, v in OPTIONAL.items() if k in given}})
    id, owner = row["id"], milestone["id"]
    if not id.startswith(f"{owner}."):
        refuse(path, f"{where}id={id!r} does not belong to {owner}; start it with {owner}.")
    if not re.fullmatch(r"[0-9]+[a-z]*", id.removeprefix(f"{owner}.")):
        refuse(path, f"{where}id={id!r} is not an id; use a number and small letters, as in {owner}.4a")
    if row["level"] not in LEVELS:
        refuse(path, f"{where}level={row['level']!r} is unknown; use one of {', '.join(LEVELS)}")
    for answer in row["acceptance"]:
        if answer not in milestone["acceptance"]:
            refuse(path, f"{where}acceptance={answer!r} is not in milestone.acceptance; add it there")
    for need in row["needs"]:
        if need not in operations and need not in CAPABILITIES:
            known = ", ".join(sorted(CAPABILITIES))
            refuse(path, f"{where}needs={need!r} is neither an operation nor one of {known}; correct it")
    for model in row.get("seen_in", ()):
        if model not in operations:
            refuse(path, f"{where}seen_in={model!r} is not an operation; name a model that has the part")
    for feature in row.get("features", ()):
        if feature not in FEATURES:
            known = ", ".join(FEATURES)
            refuse(path, f"{where}features={feature!r} is unknown; use one of {known}")
    return row


def _typed(path: Path, where: str, given: Table, keys: Mapping[str, str]) -> dict[str, Any]:
    """What these keys hold, each of its type, texts without the space around them."""
    read = {}
    for key, kind in keys.items():
        if key not in given:
            refuse(path, f"{where}{key} is missing; add it")
        value = given[key]
        if not _is(kind, value):
            refuse(path, f"{where}{key}={str(value)[:60]!r} is of the wrong type; make it {kind}")
        if kind == TEXT and not value.strip():
            refuse(path, f"{where}{key} is empty; write it")
        read[key] = value.strip() if kind == TEXT else tuple(value) if kind == LIST else dict(value)
    return read


def _is(kind: str, value: Any) -> bool:
    if kind == TEXT:
        return isinstance(value, str)
    if kind == LIST:
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
