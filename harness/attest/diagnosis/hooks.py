"""The reference with one value of one method in our hands: seen as it passes, and replaced."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from attest.diagnosis.changes import TYPES_AND_NAMES
from attest.diagnosis.edits import RULES, asks_above, function_of, made_of, running, tree_of
from attest.diagnosis.nearness import Near, level_of
from attest.diagnosis.transforms import kind_of
from attest.judging.catalogue import assemble

NAME = "__changed__"
GIVEN = "__given__"  # what those arguments of the method were that it replaces
NEVER = frozenset({"self", "p", "where", "config"})  # objects, not values
OBJECTS = frozenset({"parts", "config", "model", "value", "shape"})
LONGEST = 60  # characters of an expression that is shown

Alter = Callable[[Any, Mapping[str, Any]], Any]


@dataclass
class Hook:
    """Called with a value and the names around it each time it is computed."""

    alter: Alter | None = None
    unfit: bool = False  # it met a value of a kind that is not changed: a part, a word, a truth value

    def __call__(self, value: Any, scope: Mapping[str, Any]) -> Any:
        if not kind_of(value):
            self.unfit |= value is not None  # a bias that a model does not have is None
            return value
        return value if self.alter is None else self.alter(value, scope)


@dataclass(frozen=True)
class Hooked:
    """One expression of one method of the reference."""

    place: str  # Attention.scale
    text: str  # the expression as it reads
    piece: type[Any]
    hook: Hook = field(compare=False)
    level: int = 0  # how far its class is from what the criterion is about

    def build(self, alter: Alter | None) -> Any:
        """An implementation in which each value of the expression is replaced by what `alter` makes of it."""
        self.hook.alter = alter
        return assemble(self.piece, "altered")


def hooked(seen: frozenset[CodeType], near: Near) -> Iterator[Hooked]:
    """Every expression of every method that runs, those of the nearest methods first."""
    for kind, plain, name in running(seen, near):
        if kind not in RULES:
            level = level_of(near, kind, name)
            yield from (replace(place, level=level) for place in _hooked_in(kind, plain, name))


def _hooked_in(kind: type[Any], plain: type[Any], name: str) -> Iterator[Hooked]:
    function = function_of(tree_of(plain.__module__), plain.__name__, name)
    if function is None or asks_above(function):
        return
    namespace = vars(sys.modules[plain.__module__])
    arguments = _kept_arguments(function)
    for owner, key, at, expression in places(function):
        text = ast.unparse(expression)
        if len(text) > LONGEST:
            text = "its result" if isinstance(owner, ast.Return) else "`" + text[: LONGEST - 3] + "...`"
        hook = Hook()
        names = ast.Call(ast.Name("locals", ast.Load()), [], [])
        call = ast.Call(ast.Name(NAME, ast.Load()), [expression, names], [])
        _put(owner, key, at, call)
        function.body.insert(0, arguments)
        try:
            made = made_of(function, {**namespace, NAME: hook})
        finally:
            del function.body[0]
            _put(owner, key, at, expression)
        if made is not None:
            piece = type(kind.__name__, (plain,), {name: made[name]})
            yield Hooked(f"{kind.__name__}.{name}", text, piece, hook)


def _kept_arguments(function: ast.FunctionDef) -> ast.stmt:
    """A statement that keeps those arguments whose names get another value later."""
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    kept = [each.arg for each in function.args.args if each.arg in stored]
    return ast.parse(f"{GIVEN} = dict({', '.join(f'{name}={name}' for name in kept)})").body[0]


def _put(owner: ast.AST, key: str, at: int | None, node: ast.AST) -> None:
    if at is None:
        setattr(owner, key, node)
    else:
        getattr(owner, key)[at] = node


Place = tuple[ast.AST, str, int | None, ast.expr]


def places(function: ast.FunctionDef) -> Iterator[Place]:
    """Each expression of a function whose value may be replaced, outermost first."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        owner = waiting.pop(0)
        if isinstance(owner, ast.Raise | ast.Assert | ast.JoinedStr):
            continue
        for key, value in ast.iter_fields(owner):
            if key in TYPES_AND_NAMES and isinstance(owner, ast.stmt | ast.arg):
                continue
            for at, node in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(node, ast.AST):
                    continue
                waiting.append(node)
                if isinstance(node, ast.expr) and _is_a_value(owner, key, node):
                    yield owner, key, at if isinstance(value, list) else None, node


def _is_a_value(owner: ast.AST, key: str, node: ast.expr) -> bool:
    if key in ("func", "target", "targets", "slice", "optional_vars") or isinstance(owner, ast.Slice):
        return False
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.Attribute):
        return node.attr not in OBJECTS and not (isinstance(owner, ast.Attribute))
    if isinstance(node, ast.Name):
        return node.id not in NEVER and not isinstance(owner, ast.Attribute | ast.Subscript)
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call | ast.IfExp | ast.Subscript)
