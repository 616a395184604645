"""What may have been done to one value too much: functions of tensors, numbers, masks and ids.

Each says how it reads, with {} for the value. Tensors on the tape keep their gradients.

Shapes: T queries, S keys, n entries of an axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attest.diagnosis.longhand import mean, power
from attest.diagnosis.mask_rules import RULES, Rule, with_id, without_id
from attest.reference import ops
from attest.reference.tape import Array, Var, leaf, node

SOME = 8  # ids that may be treated apart
Scope = Mapping[str, Any]  # the names around the value


@dataclass(frozen=True)
class Transform:
    """A function of a value and of the names around it."""

    reads: str
    apply: Callable[[Any, Scope], Any]


class Unfit(Exception):
    """The value is of a kind that is not changed, or not one that the function takes."""


def kind_of(value: Any) -> str:
    """tensor, number, mask, ids; empty for what is none of them."""
    if isinstance(value, Var):
        return "tensor"
    if isinstance(value, np.ndarray) and value.ndim:
        return {"f": "tensor", "b": "mask", "i": "ids", "u": "ids"}.get(value.dtype.kind, "")
    if isinstance(value, bool | np.bool_):
        return ""
    return "number" if isinstance(value, int | float | np.integer | np.floating | np.ndarray) else ""


def transforms_of(value: Any, scope: Scope) -> Iterator[Transform]:
    """Those of the kind of the value."""
    kind = kind_of(value)
    if kind == "tensor":
        yield from POINTWISE
        yield from _ROUNDED
        yield from _dealt(value, scope)
        yield from (t for t in _ALONG if t.axis < len(shape_of(value)))
    elif kind == "number":
        yield from _INTEGERS if isinstance(value, int | np.integer) else _NUMBERS
    elif kind == "mask":
        yield from (Transform(reads, partial(_of_mask, rule)) for reads, rule in RULES)
        yield from _by_ids(value, scope)
    elif kind == "ids":
        yield from _IDS


def disturbed(value: Any) -> Any:
    """Another value of the same kind, by which to see what depends on it."""
    kind = kind_of(value)
    if kind == "tensor":
        noise = np.random.default_rng(0).normal(size=shape_of(value))
        return on_var(lambda x: ops.add(ops.scale(x, 1 + 0.3 * noise), 0.1 * noise), value)
    if kind == "number":
        return value + 1 if isinstance(value, int | np.integer) else value * 1.3 + 0.07
    if kind == "mask":
        return ~value
    if kind == "ids":
        return value + 1
    raise Unfit


def times(value: Any, factor: float) -> Any:
    """A tensor or a number times a factor."""
    return ops.scale(value, factor) if isinstance(value, Var) else value * factor


def plus(value: Any, number: float) -> Any:
    """A tensor or a number plus a number."""
    return ops.add(value, number) if isinstance(value, Var) else value + number


def plain(value: Any) -> Any:
    """The numbers of a value that may be on the tape."""
    return value.value if isinstance(value, Var) else value


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array, on the tape or not."""
    return np.shape(plain(value))


def on_var(function: Callable[[Var], Var], value: Any) -> Any:
    """A function of the tape, of an array as well."""
    return function(value) if isinstance(value, Var) else function(leaf(value)).value


def _tensor(reads: str, function: Callable[[Var], Var]) -> Transform:
    return Transform(reads, lambda value, scope: on_var(function, value))


def _pointwise(reads: str, value: Callable[[Array], Array], slope: Callable[[Array], Array]) -> Transform:
    return _tensor(reads, lambda x: ops.elementwise(x, value(x.value), slope(x.value)))


def _logistic(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    found: Array = np.where(x < 0, e, 1.0) / (1 + e)
    return found


POINTWISE = (
    _pointwise("-{}", np.negative, lambda x: -np.ones_like(x)),
    _pointwise("the square of {}", lambda x: x * x, lambda x: 2 * x),
    _pointwise("the absolute value of {}", np.abs, np.sign),
    _pointwise("{}, negative numbers as 0", lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0)),
    _pointwise("{}, cut off at -1 and 1", lambda x: np.clip(x, -1, 1), lambda x: 1.0 * (np.abs(x) < 1)),
    _pointwise("exp of {}", np.exp, np.exp),
    _pointwise("tanh of {}", np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    _pointwise("the logistic function of {}", _logistic, lambda x: _logistic(x) * (1 - _logistic(x))),
    _pointwise("log(1 + exp) of {}", lambda x: np.logaddexp(x, 0), _logistic),
    _pointwise(
        "{} times its logistic function",
        lambda x: x * _logistic(x),
        lambda x: _logistic(x) * (1 + x * (1 - _logistic(x))),
    ),
    _pointwise(
        "the root of the size of {}, with its sign",
        lambda x: np.sign(x) * np.sqrt(np.abs(x)),
        lambda x: 0.5 / np.sqrt(np.abs(x)),
    ),
    _pointwise("the sign of {}", np.sign, np.zeros_like),
    _pointwise("{} in whole numbers", np.round, np.zeros_like),
    _pointwise("1 / {}", lambda x: 1 / x, lambda x: -1 / (x * x)),
    _pointwise("zeros in place of {}", np.zeros_like, np.zeros_like),
    _tensor("the GELU of {}", ops.gelu),
    _tensor("{}, without its gradient", lambda x: Var(x.value, x.variance, x.eps)),
)


def _multiple(n: int, x: Array) -> Array:
    return np.round(x * n) / n


def _in_bits(bits: int, x: Array) -> Array:
    """With so many bits, the leading one among them."""
    fraction, exponent = np.frexp(x)
    found: Array = np.ldexp(np.round(fraction * 2.0**bits) / 2.0**bits, exponent)
    return found


def _rounding(reads: str, function: Callable[[Array], Array]) -> Transform:
    """Gradients pass as if nothing was rounded."""
    return _pointwise(reads, function, np.ones_like)


_ROUNDED = (
    *(
        _rounding(f"{{}} in multiples of 1/{n}", partial(_multiple, n))
        for n in (2, 4, 8, 10, 16, 64, 100, 256)
    ),
    *(_rounding(f"{{}} in {bits} bits", partial(_in_bits, bits)) for bits in (3, 4, 8, 11)),
)


def _dealt(value: Any, scope: Scope) -> Iterator[Transform]:
    """Features dealt out to the heads in turn, in place of one block for each; and collected so."""
    config = getattr(scope.get("self"), "config", None)
    shape = shape_of(value)
    if config is None or len(shape) not in (3, 4):
        return
    for back in (False, True):
        how = "collected from" if back else "dealt out to"
        if len(shape) == 4:
            yield _tensor(f"{{}} with features {how} the heads in turn", partial(_dealt_split, back))
            continue
        for heads in sorted({2, config.num_heads, config.kv_heads}):
            if 1 < heads < shape[-1] and not shape[-1] % heads:
                order = _turns(shape[-1], heads, back)
                reads = f"{{}} with features {how} {heads} in turn"
                yield _tensor(reads, partial(_reordered, order))


def _turns(width: int, heads: int, back: bool) -> Array:
    order = np.arange(width).reshape((heads, -1) if back else (-1, heads))
    return order.T.reshape(-1)


def _reordered(order: Array, x: Var) -> Var:
    return _ordered(x, order)


def _dealt_split(back: bool, x: Var) -> Var:
    """(B, H, T, d)."""
    B, H, T, d = x.shape
    merged = ops.reshape(ops.swap(x, 1, 2), (B, T, H * d))
    return ops.swap(ops.reshape(_ordered(merged, _turns(H * d, H, back)), (B, T, H, d)), 1, 2)


@dataclass(frozen=True)
class _Along(Transform):
    """A function along one axis, counted from the last one."""

    axis: int = 0


def _along(reads: str, function: Callable[[Var], Var]) -> Iterator[_Along]:
    """The same along each of the last three axes; a tensor has as many or more."""
    for axis, name in enumerate(("its last axis", "its last axis but one", "its last axis but two")):
        moved = partial(_moved, function, axis)
        yield _Along(reads.format("{}", axis=name), partial(_without_scope, moved), axis)


def _without_scope(function: Callable[[Var], Var], value: Any, scope: Scope) -> Any:
    return on_var(function, value)


def _moved(function: Callable[[Var], Var], axis: int, x: Var) -> Var:
    return function(x) if not axis else ops.swap(function(ops.swap(x, -1, -1 - axis)), -1, -1 - axis)


def _sum(x: Var) -> Var:
    return ops.scale(mean(x), float(x.shape[-1]))


def _ordered(x: Var, order: Array) -> Var:
    return ops.index(x, (..., order))


def _running(x: Var) -> Var:
    return node(np.cumsum(x.value, -1), (x,), lambda g: (np.flip(np.cumsum(np.flip(g, -1), -1), -1),))


def _centred(x: Var) -> Var:
    return ops.sub(x, mean(x))


def _over_length(x: Var) -> Var:
    return ops.mul(x, power(ops.add(_sum(ops.mul(x, x)), 1e-24), -0.5))


def _spread(x: Var) -> Var:
    return ops.mul(x, power(ops.add(mean(ops.mul(x, x)), 1e-24), -0.5))


_ALONG = (
    *_along("{} without its mean along {axis}", _centred),
    *_along("{} at unit length along {axis}", _over_length),
    *_along("{} over its root mean square along {axis}", _spread),
    *_along("{} over its deviation, without its mean, along {axis}", lambda x: _spread(_centred(x))),
    *_along("{} over its sum along {axis}", lambda x: ops.mul(x, power(_sum(x), -1.0))),
    *_along("a softmax of {} along {axis}", ops.softmax),
    *_along("the running sum of {} along {axis}", _running),
    *_along("the mean of {} along {axis}, everywhere", lambda x: ops.add(ops.scale(x, 0.0), mean(x))),
    *_along("{} in reverse along {axis}", lambda x: _ordered(x, np.arange(x.shape[-1])[::-1])),
    *_along("{} one place on along {axis}", lambda x: _ordered(x, np.roll(np.arange(x.shape[-1]), 1))),
    *_along("{} one place back along {axis}", lambda x: _ordered(x, np.roll(np.arange(x.shape[-1]), -1))),
    *_along("the first of {} along {axis}, everywhere", lambda x: _ordered(x, 0 * np.arange(x.shape[-1]))),
)


def _number(reads: str, function: Callable[[Any], Any]) -> Transform:
    return Transform(reads, lambda value, scope: function(value))


_NUMBERS = (
    _number("{} in whole numbers", round),
    _number("{} rounded down", math.floor),
    _number("{} rounded up", math.ceil),
    _number("log({})", math.log),
    _number("log2({})", math.log2),
    _number("exp({})", math.exp),
    _number("the absolute value of {}", abs),
)
_INTEGERS = (
    _number("2 * {}", lambda n: 2 * n),
    _number("{} // 2", lambda n: n // 2),
    _number("-{}", lambda n: -n),
    _number("0 in place of {}", lambda n: 0),
    _number("1 in place of {}", lambda n: 1),
    _number("{} + 1", lambda n: n + 1),
    _number("{} - 1", lambda n: n - 1),
    _number("{}, at least 0", lambda n: max(n, 0)),
    _number("{}, at least 1", lambda n: max(n, 1)),
    _number("{}, at most 0", lambda n: min(n, 0)),
    _number("{}, at most 1", lambda n: min(n, 1)),
    _number("{} rounded down to an even number", lambda n: n - n % 2),
    _number("{} % 2", lambda n: n % 2),
    _number("the square of {}", lambda n: n * n),
    _number("the root of {}", lambda n: n**0.5),
)
_IDS = (
    _number("{} + 1", lambda x: x + 1),
    _number("{} - 1", lambda x: x - 1),
    _number("{} + 2", lambda x: x + 2),
    _number("{} - 2", lambda x: x - 2),
    _number("{}, at least 0", lambda x: np.maximum(x, 0)),
    _number("{}, at least 1", lambda x: np.maximum(x, 1)),
    _number("2 * {}", lambda x: 2 * x),
    _number("{} // 2", lambda x: x // 2),
    _number("-{}", lambda x: -x),
    _number("zeros in place of {}", lambda x: 0 * x),
    _number("{} in reverse", lambda x: x[..., ::-1]),
    _number("{} of the first row", lambda x: x[:1] + 0 * x),
    _number("{} counted along the row", lambda x: np.arange(x.shape[-1]) + 0 * x),
)


def _of_mask(rule: Rule, mask: Array, scope: Scope) -> Array:
    return rule(mask)


def _by_ids(mask: Array, scope: Scope) -> Iterator[Transform]:
    """A mask that hides one id more, or shows one, of ids that are known where it is made."""
    for name, ids in scope.items():
        if kind_of(ids) == "ids" and np.shape(ids) == mask.shape:
            for n in np.unique(ids)[:SOME]:
                yield Transform(f"{{}} and {name} != {n}", partial(without_id, name, int(n)))
                yield Transform(f"{{}} or {name} == {n}", partial(with_id, name, int(n)))
