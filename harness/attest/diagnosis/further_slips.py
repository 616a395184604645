"""Slips in the reference's own vocabulary: one operation for another, a setting ignored, a step left out.

They come on top of the slips of the hand, for diagnosis alone: mutants of an implementation are not made so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from attest.contract.config import RULES, default_of

Found = Iterator[tuple[str, ast.AST]]
# Of two Vars; `scale` is by a number, which may be inverted.
EXCHANGED = {"add": ("sub", "mul"), "sub": ("add",), "mul": ("add",)}
OTHER_NAMES = {
    "sin": "cos", "cos": "sin", "exp": "expm1", "log": "log1p", "maximum": "minimum", "minimum": "maximum",
    "min": "max", "max": "min", "argmax": "argmin", "sum": "mean", "mean": "sum", "any": "all", "all": "any",
    "project_q": "project_k", "project_k": "project_v", "project_v": "project_q",
}  # fmt: skip
NUMBERS = (0.0, 0.5, 10.0, 0.1)  # what a constant is multiplied by
JOINS = frozenset({"add", "mul", "sub"})
# Calls that are no step of a computation: what they give is a shape, a name or a number.
NO_STEPS = frozenset(
    {"at", "get", "but", "int", "float", "len", "range", "max", "min", "sqrt", "arange", "zeros", "items"}
)
# Names of parameters of which one may stand for another.
CONFUSED = (
    ("query", "key", "value"),
    ("norm0", "norm1", "norm2"),
    ("self_attention", "cross_attention"),
    ("source_embedding.weight", "target_embedding.weight"),
)


def further(node: ast.AST) -> Found:
    """(kind, expression to stand in its place)."""
    if isinstance(node, ast.Call):
        yield from _call(node)
        yield from _order(node)
    elif isinstance(node, ast.BinOp):
        yield from _arithmetic(node)
    elif isinstance(node, ast.IfExp):
        yield "one branch", node.body
        yield "one branch", node.orelse
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.Attribute):
        yield from _setting(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield "always", ast.Constant(True)
        yield "never", ast.Constant(False)


def _call(node: ast.Call) -> Found:
    function = node.func
    if not isinstance(function, ast.Attribute | ast.Name):
        return
    name = function.attr if isinstance(function, ast.Attribute) else function.id
    for other in (*EXCHANGED.get(name, ()), *([OTHER_NAMES[name]] if name in OTHER_NAMES else [])):
        yield "another operation", ast.Call(_renamed(function, other), node.args, node.keywords)
    if name == "scale" and len(node.args) == 2:
        inverse = ast.BinOp(ast.Constant(1.0), ast.Div(), node.args[1])
        yield "factor inverted", ast.Call(function, [node.args[0], inverse], node.keywords)
        square = ast.BinOp(node.args[1], ast.Mult(), node.args[1])
        yield "factor squared", ast.Call(function, [node.args[0], square], node.keywords)
    if name == "sqrt" and node.args:
        yield "root left out", node.args[0]
    for argument in node.args[1:]:  # the first is what the call is removed for
        if isinstance(argument, ast.Name | ast.Call):
            yield "another argument given back", argument


def _order(node: ast.Call) -> Found:
    """Two steps exchanged, one taken of an operand before it is joined with another, one taken twice."""
    if not node.args or _name(node) in NO_STEPS or any(isinstance(a, ast.Starred) for a in node.args):
        return
    first, *rest = node.args
    if isinstance(node.func, ast.Attribute):
        yield "step taken twice", _of(node, node, rest)
    if not isinstance(first, ast.Call) or not first.args or _name(first) in NO_STEPS:
        return
    inner, *others = first.args
    yield "steps exchanged", _of(first, _of(node, inner, rest), others)
    if _name(first) in JOINS and len(others) == 1:
        yield "step before the sum", _of(first, inner, [_of(node, others[0], rest)])


def _of(call: ast.Call, first: ast.expr, rest: list[ast.expr]) -> ast.Call:
    return ast.Call(call.func, [first, *rest], call.keywords)


def _name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _renamed(function: ast.Attribute | ast.Name, name: str) -> ast.expr:
    """The same function by another name. Before Python 3.13 a node without ctx does not compile."""
    if isinstance(function, ast.Attribute):
        return ast.Attribute(function.value, name, ast.Load())
    return ast.Name(name, ast.Load())


def _arithmetic(node: ast.BinOp) -> Found:
    if isinstance(node.op, ast.Pow | ast.Mod | ast.FloorDiv):
        yield "operand dropped", node.left
    if isinstance(node.op, ast.Pow):
        yield "arguments swapped", ast.BinOp(node.right, node.op, node.left)
        doubled = ast.BinOp(node.right, ast.Mult(), ast.Constant(2))
        yield "exponent doubled", ast.BinOp(node.left, node.op, doubled)
        halved = ast.BinOp(node.right, ast.Div(), ast.Constant(2))
        yield "exponent halved", ast.BinOp(node.left, node.op, halved)


def _constant(node: ast.Constant) -> Found:
    if isinstance(node.value, float):
        for factor in NUMBERS:
            yield "constant", ast.Constant(node.value * factor)
    for names in CONFUSED:
        if node.value in names:
            yield from (("another name", ast.Constant(name)) for name in names if name != node.value)


def _setting(node: ast.Attribute) -> Found:
    """A setting that is ignored: its default, or nothing, stands in its place."""
    of_config = (isinstance(node.value, ast.Attribute) and node.value.attr == "config") or (
        isinstance(node.value, ast.Name) and node.value.id in ("c", "config")
    )
    if not of_config or node.attr not in RULES:
        return
    default = default_of(node.attr)
    for value in (
        default,
        None if default is None else type(default)(0) if not isinstance(default, str) else "",
    ):
        if isinstance(value, bool | int | float | str | None):
            yield "setting ignored", ast.Constant(value)
