"""The reference with one thing in one method changed: what a slip of the hand would have made of it.

A catalogue holds the faults that somebody has made before. These are made when they are needed, out of the
text of the methods that the failing case runs, and each is put to the same test as a known defect.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

from attest.diagnosis.changes import Change, changes
from attest.diagnosis.executed import code_of
from attest.diagnosis.further_slips import further
from attest.diagnosis.longhand import LONGHAND
from attest.diagnosis.nearness import Near
from attest.judging.catalogue import assemble
from attest.reference.assembly import SLOTS
from attest.reference.component import ReferenceComponent
from attest.reference.decoding.generator import ReferenceGenerator
from attest.reference.models.language_model import ReferenceCompleter, ReferenceLanguageModel
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.training.trainer import ReferenceOptimizer, ReferenceTrainer
from attest.reference.validation import ConfigRules, InputRules

WIRED = (
    ReferenceGenerator,
    ReferenceTrainer,
    ReferenceTransformer,
    ReferenceOptimizer,
    ReferenceLanguageModel,
    ReferenceCompleter,
)
RULES = (ConfigRules, InputRules)  # of every component: what it refuses
# Changes that no correct method survives, and that answer to no failure but an exception.
LEGIBLE = 12  # characters; of a shorter piece the whole statement is shown
LOUD = frozenset({"argument dropped"})


@dataclass(frozen=True)
class Edit:
    """One change of the reference: where, and how the text reads before and after."""

    place: str  # Ranking.length_penalty
    before: str
    after: str
    piece: type[Any]

    def build(self) -> Any:
        """A fresh implementation with this change."""
        return assemble(self.piece, "edited")


def edits(seen: frozenset[CodeType], near: Near) -> Iterator[Edit]:
    """Every change of every method that runs, the nearest methods first."""
    for kind, plain, name in running(seen, near):
        yield from _edits_of(kind, plain, name)


def running(seen: frozenset[CodeType], near: Near) -> list[tuple[type[Any], type[Any], str]]:
    """(class, class with the text, method) of all that ran, the nearest first; each also as written out."""
    found = []
    for kind in editable():
        ran = [name for name, value in vars(kind).items() if code_of(value) in seen]
        found += [(kind, kind, name) for name in ran]
        if kind in LONGHAND and set(vars(LONGHAND[kind])) & set(ran):
            written = [name for name, value in vars(LONGHAND[kind]).items() if code_of(value) is not None]
            found += [(kind, LONGHAND[kind], name) for name in written]
    return sorted(found, key=lambda one: near(one[0], one[2]))


def editable() -> list[type[Any]]:
    """Every class of the reference that can be replaced, with those it is derived from."""
    rows = {row for slot in SLOTS.values() for row in slot.rows.values()}
    found: dict[type[Any], None] = {}
    for kind in (*sorted(rows, key=lambda row: row.__name__), *WIRED, *RULES):
        found.setdefault(kind)
    return list(found)


def _edits_of(kind: type[Any], plain: type[Any], name: str) -> Iterator[Edit]:
    tree, namespace = tree_of(plain.__module__), vars(sys.modules[plain.__module__])
    function = function_of(tree, plain.__name__, name)
    if function is None or asks_above(function):
        return
    place = f"{plain.__name__}.{name}"
    for change in _changes(plain.__module__).get(place, ()):
        before, after = change.texts(LEGIBLE)
        old = change.apply()
        try:
            made = made_of(function, namespace)
        finally:
            _put_back(change, old)
        if made is not None:
            base = ReferenceComponent if kind in RULES else plain
            piece = type(kind.__name__, (base,), {name: made[name]})
            yield Edit(f"{kind.__name__}.{name}", before, after, piece)


def _put_back(change: Change, old: Any) -> None:
    if change.position is None:
        setattr(change.owner, change.field, old)
    else:
        getattr(change.owner, change.field)[change.position] = old


def made_of(function: ast.FunctionDef, namespace: dict[str, Any]) -> dict[str, Any] | None:
    """The function compiled by itself; None where the change is no Python."""
    own: dict[str, Any] = {}
    module = ast.fix_missing_locations(ast.Module([function], []))
    try:
        exec(compile(module, f"<edit of {function.name}>", "exec", flags=_ANNOTATIONS), namespace, own)
    except (SyntaxError, TypeError, ValueError, NameError):
        return None
    return own


_ANNOTATIONS = __import__("__future__").annotations.compiler_flag  # names of types are not looked up


def asks_above(function: ast.FunctionDef) -> bool:
    """Whether it calls super(), which a function outside its class cannot."""
    return any(isinstance(node, ast.Name) and node.id == "super" for node in ast.walk(function))


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


@cache
def _changes(module: str) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in changes(tree_of(module), further):
        if change.kind not in LOUD:
            found.setdefault(change.function, []).append(change)
    return found


def function_of(tree: ast.Module, kind: str, name: str) -> ast.FunctionDef | None:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == kind:
            return next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == name), None)
    return None
