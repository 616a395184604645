"""A value of the reference together with another one of its method, or that one in its place.

Shapes: n entries of the last axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from attest.contract.config import RULES, default_of
from attest.diagnosis.hooks import GIVEN
from attest.diagnosis.longhand import mean, power
from attest.diagnosis.transforms import POINTWISE, Scope, Transform, kind_of, on_var, plain, shape_of
from attest.reference import ops
from attest.reference.tape import Var, constant

AS_GIVEN = "{} as it was given"
Function = Callable[[Var], Var]


def with_others(value: Any, scope: Scope) -> Iterator[Transform]:
    """A tensor, mask or number with another one of the method."""
    kind = kind_of(value)
    if kind == "tensor":
        yield from _tensors(value, scope)
    elif kind == "number":
        yield from _numbers(value, scope)
    elif kind == "mask":
        for name, other in named(scope).items():
            if kind_of(other) == "mask" and other is not value and shape_of(other) == shape_of(value):
                yield Transform(name, partial(_instead, name, None))


def named(scope: Scope) -> dict[str, Any]:
    """The values around an expression; an argument that is replaced also as it was given."""
    found = {name: value for name, value in scope.items() if not name.startswith("__")}
    return found | {AS_GIVEN.format(name): value for name, value in scope.get(GIVEN, {}).items()}


def sizes(scope: Scope) -> dict[str, float]:
    """Numbers by which a factor may be explained: settings, arguments, and the sizes of what is around."""
    config = getattr(scope.get("self"), "config", None)
    found: dict[str, Any] = {name: getattr(config, name) for name in RULES} if config is not None else {}
    for name, value in named(scope).items():
        if kind_of(value) in ("tensor", "mask", "ids"):
            shape = shape_of(value)
            found |= {f"{name}.shape[{axis}]": shape[axis] for axis in (-1, -2, -3) if len(shape) >= -axis}
        elif isinstance(value, Mapping | list | tuple):
            found[f"len({name})"] = len(value)
        else:
            found.setdefault(name, value)
    return {
        name: value for name, value in found.items() if kind_of(value) == "number" and np.ndim(value) == 0
    }


def _numbers(value: Any, scope: Scope) -> Iterator[Transform]:
    for name, other in sizes(scope).items():
        if other != value and not (name in RULES and other == default_of(name)):
            for reads, function in (("{1}", _second), ("{0}, at least {1}", max), ("{0}, at most {1}", min)):
                yield Transform(reads.format("{}", name), partial(_with_size, function, name))


def _second(value: float, other: float) -> float:
    return other


def _with_size(function: Callable[[float, float], float], name: str, value: float, scope: Scope) -> float:
    return function(value, sizes(scope)[name])


def _tensors(value: Any, scope: Scope) -> Iterator[Transform]:
    shape = shape_of(value)
    for name, other in named(scope).items():
        if kind_of(other) != "tensor" or other is value:
            continue
        if _fits(shape, shape_of(other)):
            yield Transform(f"{{}} + {name}", partial(_both, ops.add, name))
            yield Transform(f"{{}} * {name}", partial(_both, ops.mul, name))
        if shape == shape_of(other):
            yield Transform(f"{{}} - {name}", partial(_both, ops.sub, name))
            yield Transform(name, partial(_instead, name, None))
            for each in POINTWISE:
                yield Transform(each.reads.format(name), partial(_applied, each, name))
        kept = (*shape_of(other)[:-1], 1)
        if shape in (kept, kept[:-1]) and shape_of(other)[-1:] != (1,):
            for reads, function in REDUCED:
                yield Transform(
                    reads.format(name), partial(_instead, name, partial(_reduced, function, shape))
                )


def _applied(transform: Transform, name: str, value: Any, scope: Scope) -> Any:
    return transform.apply(_instead(name, None, value, scope), scope)


def _instead(name: str, function: Function | None, value: Any, scope: Scope) -> Any:
    other = named(scope)[name]
    if function is not None:
        other = on_var(function, other)
    if isinstance(value, Var):
        return constant(other)
    return plain(other)


def _reduced(function: Function, shape: tuple[int, ...], x: Var) -> Var:
    found = function(x)
    return found if len(shape) == len(found.shape) else ops.reshape(found, found.shape[:-1])


def _fits(shape: tuple[int, ...], another: tuple[int, ...]) -> bool:
    try:
        return bool(np.broadcast_shapes(shape, another) == shape)
    except ValueError:
        return False


def _both(function: Callable[[Any, Any], Var], name: str, value: Any, scope: Scope) -> Any:
    made = function(constant(value), constant(named(scope)[name]))
    return made if isinstance(value, Var) else made.value


def _size(x: Var) -> Var:
    return ops.elementwise(x, np.abs(x.value), np.sign(x.value))


def _square(x: Var) -> Var:
    return ops.mul(x, x)


def _largest(x: Var) -> Var:
    return constant(x.value.max(axis=-1, keepdims=True))


def _corrected(x: Var) -> Var:
    centred, n = ops.sub(x, mean(x)), x.shape[-1]
    return ops.scale(mean(_square(centred)), n / max(n - 1, 1))


REDUCED: tuple[tuple[str, Function], ...] = (
    ("the mean of {}", mean),
    ("the sum of {}", lambda x: ops.scale(mean(x), float(x.shape[-1]))),
    ("the mean size of {}", lambda x: mean(_size(x))),
    ("the square of the mean size of {}", lambda x: _square(mean(_size(x)))),
    ("the mean square of {}", lambda x: mean(_square(x))),
    ("the sum of the squares of {}", lambda x: ops.scale(mean(_square(x)), float(x.shape[-1]))),
    ("the root mean square of {}", lambda x: power(ops.add(mean(_square(x)), 1e-30), 0.5)),
    ("the variance of {}", lambda x: mean(_square(ops.sub(x, mean(x))))),
    ("the variance of {} with n - 1", _corrected),
    ("the largest of {}", _largest),
    ("the square of the largest size of {}", lambda x: _square(_largest(_size(x)))),
)
