"""Every change of one thing in a source: where it stands, and how the text reads before and after."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from attest.diagnosis.slips import AXIS_NAMES, Context, other_operator, replacements

INERT = (ast.Import, ast.ImportFrom, ast.Raise, ast.Assert, ast.Global, ast.Nonlocal, ast.Pass)
TYPES_AND_NAMES = frozenset({"annotation", "returns", "decorator_list", "bases", "keywords", "type_params"})
BODIES = ("body", "orelse", "finalbody")


@dataclass(frozen=True)
class Change:
    """Put `new` into one place of a tree, and take it out again."""

    kind: str
    function: str
    statement: ast.stmt
    owner: ast.AST
    field: str
    position: int | None
    new: Any

    def apply(self) -> Any:
        """Make the change; what was there before."""
        if self.position is None:
            old = getattr(self.owner, self.field)
            setattr(self.owner, self.field, self.new)
            return old
        place = getattr(self.owner, self.field)
        old, place[self.position] = place[self.position], self.new
        return old

    def texts(self, least: int = 0) -> tuple[str, str]:
        """The smallest piece around the change as it reads before and after.

        The whole statement where the piece has fewer characters than `least`.
        """
        if isinstance(self.new, ast.Pass):
            return _line(self.statement), "pass"
        shown = self.statement if isinstance(self.owner, ast.arguments | ast.withitem) else self.owner
        shown = shown if len(_line(shown)) >= least else self.statement
        before = _line(shown)
        old = self.apply()
        after = _line(shown)
        replace(self, new=old).apply()
        return before, after


def changes(tree: ast.Module, further: Further | None = None) -> Iterator[Change]:
    """Every change of this tree, in the order of its text; with further slips at each expression."""
    modules = frozenset(_imported(tree))
    for owner, field, position, statement, function, bound in _statements(tree, "", frozenset()):
        if _can_be_dropped(statement, bound):
            yield Change(
                "statement dropped",
                function,
                statement,
                owner,
                field,
                position,
                ast.Pass(lineno=statement.lineno),
            )
        if isinstance(statement, ast.If | ast.While) and not _negated_elsewhere(statement.test):
            negated = ast.UnaryOp(ast.Not(), statement.test)
            yield Change("branch", function, statement, statement, "test", None, negated)
        if isinstance(statement, ast.AugAssign) and (other := other_operator(statement.op)):
            yield Change("operator", function, statement, statement, "op", None, other)
        for place in _expressions(statement, Context(modules=modules)):
            inner, name, at, node, context = place
            for kind, new in replacements(node, context):
                # A call that is a statement of its own is dropped as a statement.
                if not (kind == "call removed" and isinstance(inner, ast.Expr)):
                    yield Change(kind, function, statement, inner, name, at, new)
            for kind, new in further(node) if further is not None else ():
                yield Change(kind, function, statement, inner, name, at, new)


Further = Callable[[ast.AST], Iterator[tuple[str, ast.AST]]]
Place = tuple[ast.AST, str, int | None, ast.AST, Context]
Standing = tuple[ast.AST, str, int, ast.stmt, str, frozenset[str]]


def _statements(owner: ast.AST, scope: str, bound: frozenset[str]) -> Iterator[Standing]:
    """Each statement with the place it stands in, its function and the names bound before it.

    The scope of a class ends with a dot: what stands there is outside every function.
    """
    for field in BODIES:
        body = getattr(owner, field, None)
        for position, statement in enumerate(body if isinstance(body, list) else ()):
            if isinstance(statement, INERT) or _is_text(statement) or _is_for_types(statement):
                continue
            inner, names = _scope(statement, scope, bound)
            function = inner if isinstance(statement, ast.FunctionDef) else scope
            yield owner, field, position, statement, "" if function.endswith(".") else function, bound
            yield from _statements(statement, inner, names)
            bound = bound | _bound_by(statement)
    for part in (*getattr(owner, "handlers", ()), *getattr(owner, "cases", ())):
        yield from _statements(part, scope, bound)


def _scope(statement: ast.stmt, scope: str, bound: frozenset[str]) -> tuple[str, frozenset[str]]:
    prefix = f"{scope.rstrip('.')}.".lstrip(".")
    if isinstance(statement, ast.FunctionDef):
        arguments = {a.arg for a in ast.walk(statement.args) if isinstance(a, ast.arg)}
        return f"{prefix}{statement.name}", frozenset(arguments)
    if isinstance(statement, ast.ClassDef):
        return f"{prefix}{statement.name}.", frozenset()
    return scope, bound


def _bound_by(statement: ast.stmt) -> set[str]:
    names = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {n.id for n in names}


def _can_be_dropped(statement: ast.stmt, bound: frozenset[str]) -> bool:
    """Whether it can be forgotten without every later line failing at once."""
    if isinstance(statement, ast.Expr | ast.AugAssign | ast.If):
        return True
    if not isinstance(statement, ast.Assign):
        return False
    targets = [n for t in statement.targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return all(isinstance(t, ast.Subscript) or (isinstance(t, ast.Name) and t.id in bound) for t in targets)


def _expressions(owner: ast.AST, context: Context) -> Iterator[Place]:
    """Expressions of a statement itself, outermost first; statements inside it come on their own."""
    for field, value in ast.iter_fields(owner):
        if field in TYPES_AND_NAMES and isinstance(owner, ast.stmt | ast.arg):
            continue
        listed = isinstance(value, list)
        for at, node in enumerate(value if listed else [value]):
            if not isinstance(node, ast.AST) or isinstance(
                node, ast.stmt | ast.JoinedStr | ast.ExceptHandler | ast.match_case
            ):
                continue
            inner = _context(owner, field, node, context)
            yield owner, field, at if listed else None, node, inner
            if not _is_negative_number(node):
                yield from _expressions(node, inner)


def _context(owner: ast.AST, field: str, node: ast.AST, context: Context) -> Context:
    if isinstance(owner, ast.Subscript) and field == "slice":
        return replace(context, role="index")
    if isinstance(owner, ast.keyword):
        return replace(context, role="axis" if owner.arg in AXIS_NAMES else "constant")
    if isinstance(owner, ast.Call) and field == "args":
        return replace(context, role="axis" if _is_negative_number(node) else "constant")
    return context


def _is_negative_number(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
        and isinstance(node.operand.value, int)
    )


def _negated_elsewhere(test: ast.expr) -> bool:
    """`not x` and `a == b` are turned into their opposite by the kinds that change them."""
    opposites = ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn
    compared = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], opposites)
    return compared or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_for_types(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


def _line(node: ast.AST) -> str:
    """A node in one line; of a statement with a body its first line."""
    if isinstance(node, ast.stmt):
        node = copy.copy(node)
        for field in (*BODIES, "handlers", "cases", "decorator_list"):
            if isinstance(getattr(node, field, None), list):
                setattr(node, field, [ast.Pass()] if field == "body" else [])
    return " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()[0].split())
