"""The kinds of faults: for one expression of a source, what a slip of the hand could have written instead."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# Swapping the arguments of min and max changes nothing; the others raise at once when they are removed.
SAME_EITHER_WAY = frozenset({"min", "max"})
PLUMBING = frozenset(
    {"isinstance", "getattr", "hasattr", "len", "range", "zip", "enumerate", "super", "dict"}
)
AXIS_NAMES = frozenset({"dim", "axis", "dims", "dim0", "dim1"})


@dataclass(frozen=True)
class Context:
    """What an expression stands in: an index, an axis of a call, or neither; the modules imported here."""

    role: str = "constant"  # the kind under which a changed number counts
    modules: frozenset[str] = frozenset()


Found = Iterator[tuple[str, ast.AST]]


def replacements(node: ast.AST, context: Context) -> Found:
    """(kind, expression to stand in its place), none where nothing of the kind can go wrong."""
    rule = _RULES.get(type(node))
    if rule is not None:
        yield from rule(node, context)


def other_operator(operator: ast.operator) -> ast.operator | None:
    """The operator most easily written for this one."""
    other = OPERATORS.get(type(operator))
    return other() if other else None


def _number(node: ast.Constant, context: Context) -> Found:
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        for value in (node.value + 1, node.value - 1):
            yield context.role, ast.Constant(value)
    elif isinstance(node.value, float):
        yield context.role, ast.Constant(node.value * 2 if node.value else 1.0)


def _sign(node: ast.UnaryOp, context: Context) -> Found:
    if isinstance(node.op, ast.Not | ast.Invert):
        yield "not removed", node.operand
    if not isinstance(node.op, ast.USub):
        return
    if isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int):
        for value in (-node.operand.value - 1, -node.operand.value + 1):
            yield context.role, ast.Constant(value)
    else:
        yield "operator", node.operand


def _arithmetic(node: ast.BinOp, context: Context) -> Found:
    other = other_operator(node.op)
    if other is not None:
        yield "operator", ast.BinOp(node.left, other, node.right)
    if isinstance(node.op, ast.Sub | ast.Div):
        yield "arguments swapped", ast.BinOp(node.right, node.op, node.left)
    if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.BitAnd):
        yield "operand dropped", node.left
    if isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd):
        yield "operand dropped", node.right


def _comparison(node: ast.Compare, context: Context) -> Found:
    for i, operator in enumerate(node.ops):
        changed = [*node.ops[:i], COMPARISONS[type(operator)](), *node.ops[i + 1 :]]
        yield "comparison", ast.Compare(node.left, changed, node.comparators)


def _logic(node: ast.BoolOp, context: Context) -> Found:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "and / or", ast.BoolOp(other, node.values)
    for i in range(len(node.values)):
        left = [*node.values[:i], *node.values[i + 1 :]]
        yield "and / or", left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def _choice(node: ast.IfExp, context: Context) -> Found:
    yield "branch", ast.IfExp(node.test, node.orelse, node.body)


def _condition(node: ast.comprehension, context: Context) -> Found:
    for i, test in enumerate(node.ifs):
        others = [*node.ifs[:i], *node.ifs[i + 1 :]]
        negated = [*others, ast.UnaryOp(ast.Not(), test)]
        yield "branch", ast.comprehension(node.target, node.iter, negated, node.is_async)
        yield "branch", ast.comprehension(node.target, node.iter, others, node.is_async)


def _slice(node: ast.Slice, context: Context) -> Found:
    for name in ("lower", "upper"):
        bound = getattr(node, name)
        if bound is None:
            continue
        yield "index", _but(node, name, None)
        if not isinstance(bound, ast.Constant | ast.UnaryOp):
            for operator in (ast.Add(), ast.Sub()):
                yield "off by one", _but(node, name, ast.BinOp(bound, operator, ast.Constant(1)))


def _call(node: ast.Call, context: Context) -> Found:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    plain = not any(isinstance(a, ast.Starred) for a in node.args)
    if name == "range" and node.args and not isinstance(node.args[-1], ast.Constant):
        for operator in (ast.Add(), ast.Sub()):
            last = ast.BinOp(node.args[-1], operator, ast.Constant(1))
            yield "off by one", ast.Call(node.func, [*node.args[:-1], last], node.keywords)
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "device"):  # on a CPU the device changes nothing
            kept = [*node.keywords[:i], *node.keywords[i + 1 :]]
            yield "argument dropped", ast.Call(node.func, node.args, kept)
    if plain and name not in SAME_EITHER_WAY | PLUMBING:
        for i in range(len(node.args) - 1):
            swapped = [*node.args[:i], node.args[i + 1], node.args[i], *node.args[i + 2 :]]
            yield "arguments swapped", ast.Call(node.func, swapped, node.keywords)
    without = _without_call(node, context)
    if without is not None and name not in PLUMBING:
        yield "call removed", without


def _without_call(node: ast.Call, context: Context) -> ast.expr | None:
    """What is left when a call is forgotten: its receiver, or its first argument; a class needs its call."""
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value
        root = owner
        while isinstance(root, ast.Attribute):
            root = root.value
        if not (isinstance(root, ast.Name) and root.id in context.modules | {"self", "cls"}):
            return None if isinstance(root, ast.Call) and _is_super(root) else owner
        name = node.func.attr
    else:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
    first = node.args[0] if node.args else None
    return None if first is None or isinstance(first, ast.Starred) or name[:1].isupper() else first


def _is_super(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "super"


def _but(node: ast.Slice, name: str, bound: ast.expr | None) -> ast.Slice:
    bounds = {"lower": node.lower, "upper": node.upper, "step": node.step, name: bound}
    return ast.Slice(bounds["lower"], bounds["upper"], bounds["step"])


_RULES: dict[type[ast.AST], Callable[..., Found]] = {
    ast.Constant: _number,
    ast.UnaryOp: _sign,
    ast.BinOp: _arithmetic,
    ast.Compare: _comparison,
    ast.BoolOp: _logic,
    ast.IfExp: _choice,
    ast.comprehension: _condition,
    ast.Slice: _slice,
    ast.Call: _call,
}
