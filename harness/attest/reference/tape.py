"""Float64 arrays that remember how they were made: gradients backwards, rounding error forwards.

A `Var` holds a value, the parents it came from, and, when its inputs carry an epsilon, the variance of the
rounding error an implementation in that precision may have collected: a first-order root-sum-square, in
which every operation adds its own roundings to those it inherits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Variance = Array | None
Backward = Callable[[Array], Sequence[Array | None]]

# How many deviations a correct implementation may be away. The deviation is that of a row, so the largest
# of n independent errors is near sqrt(2 log n) deviations, 4 for a row of 1,000; errors that are not
# independent come on top. Measured: the worst of 40,000 correct comparisons needs 2.7; of 56,490 numbers of
# the implementations eager and numpy_scratch, 560 random cases of 14 operations in float32 and float64, the
# worst needs 1.4.
FACTOR = 8.0
# Near the smallest normal number of float32, 1.2e-38: below it numbers lose their digits or become zero.
FLOOR = 1e-38

_serial = itertools.count()


class Var:
    """A float64 array on the tape. Compared and hashed by identity."""

    __slots__ = ("backward", "eps", "needs_gradient", "parents", "serial", "value", "variance")

    def __init__(
        self,
        value: Array,
        variance: Variance = None,
        eps: float = 0.0,
        parents: tuple[Var, ...] = (),
        backward: Backward | None = None,
        needs_gradient: bool = False,
    ) -> None:
        self.value, self.variance, self.eps = value, variance, eps
        self.parents, self.backward = parents, backward
        self.needs_gradient = needs_gradient
        self.serial = next(_serial)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    def __repr__(self) -> str:
        return f"Var{self.shape}"


Operand = Var | Array | float

_precision: type[np.floating[Any]] = np.float64


@contextmanager
def in_precision(dtype: type[np.floating[Any]]) -> Iterator[None]:
    """Inside, values enter the tape in this precision instead of float64.

    Gradients that are judged in float64 are made in long double. Softmax's backward pass subtracts numbers
    that nearly agree; where one weight is nearly 1, a float64 tape is further from the exact gradient than a
    correct float64 implementation. Measured with cotangents that are rounded as in `oracle._perturbed`: a
    softmax whose maximum is part of the graph was refused by a float64 tape in 35 of 200 cases of the regime
    offset (S=3 d_k=1 d_v=5), at up to 115 times the bound, and by a long double tape in none.
    Long double has a mantissa of 64 bits on x86 and of 113 on Linux on ARM. On macOS on ARM and on Windows it
    is float64: there such a case may still be refused, and nothing else changes.
    """
    global _precision
    before, _precision = _precision, dtype
    try:
        yield
    finally:
        _precision = before


_roundings: tuple[np.random.Generator, float] | None = None


@contextmanager
def rounding(rng: np.random.Generator, size: float) -> Iterator[None]:
    """Inside, operations whose backward pass cancels see their own results off by relative `size`."""
    global _roundings
    _roundings = (rng, size)
    try:
        yield
    finally:
        _roundings = None


def rounded(x: Array, at: Array | None = None) -> Array:
    """x as an operation remembers it for its backward pass; off by a rounding inside `rounding`.

    The rounding is one of x itself, or of numbers as large as `at`.
    """
    if _roundings is None:
        return x
    rng, size = _roundings
    return x + size * rng.standard_normal(x.shape) * (x if at is None else at)


def leaf(value: Any, *, eps: float = 0.0, error: float = 0.0, gradient: bool = False) -> Var:
    """A value that enters the tape, known to within `error` times its size."""
    array = np.asarray(value, dtype=_precision)
    variance = (error * array) ** 2 if error else None
    return Var(array, variance, eps, needs_gradient=gradient)


def constant(value: Operand) -> Var:
    """The operand itself, or a Var without error and without gradient."""
    return value if isinstance(value, Var) else Var(np.asarray(value, dtype=_precision))


def detach(a: Var) -> Var:
    """The same numbers and error, cut off from the gradient."""
    return Var(a.value, a.variance, a.eps)


def node(value: Array, parents: tuple[Var, ...], backward: Backward, variance: Variance = None) -> Var:
    """The result of an operation. `backward` maps its cotangent to one cotangent per parent."""
    eps = max([parent.eps for parent in parents])
    for parent in parents:
        if parent.needs_gradient:
            return Var(value, variance, eps, parents, backward, True)
    return Var(value, variance, eps)


def tracks_error(*operands: Var) -> float:
    """The epsilon in force: 0 when no operand has one."""
    return max([operand.eps for operand in operands])


def variance_of(a: Var) -> Array | float:
    return 0.0 if a.variance is None else a.variance


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum a cotangent over the axes along which its array was broadcast."""
    if g.shape == shape:
        return g
    extra = g.ndim - len(shape)
    if extra:
        g = g.sum(axis=tuple(range(extra)))
    stretched = tuple(i for i, size in enumerate(shape) if size == 1 and g.shape[i] != 1)
    return g.sum(axis=stretched, keepdims=True) if stretched else g


def gradients(outputs: Iterable[tuple[Var, Array]], leaves: Sequence[Var]) -> list[Array]:
    """Gradients of the sum of <cotangent, output> with respect to each leaf; zeros where nothing flows."""
    cotangents: dict[Var, Array] = {}
    for output, cotangent in outputs:
        _accumulate(cotangents, output, np.asarray(cotangent, dtype=_precision))
    for var in sorted(_reachable(cotangents), key=lambda v: -v.serial):
        if var.backward is None or var not in cotangents:
            continue
        for parent, g in zip(var.parents, var.backward(cotangents[var])):
            if g is not None and parent.needs_gradient:
                _accumulate(cotangents, parent, g)
    return [cotangents[a] if a in cotangents else np.zeros(a.shape) for a in leaves]


def _accumulate(cotangents: dict[Var, Array], var: Var, g: Array) -> None:
    held = cotangents.get(var)
    cotangents[var] = g if held is None else held + g


def _reachable(outputs: Iterable[Var]) -> set[Var]:
    seen: set[Var] = set()
    waiting = list(outputs)
    while waiting:
        var = waiting.pop()
        if var not in seen:
            seen.add(var)
            waiting.extend(parent for parent in var.parents if parent.needs_gradient)
    return seen


def bound(var: Var, *, peaked: bool = False) -> Array:
    """How far a correct implementation may be from each row of `var`: last axis kept with length 1.

    The deviation of a row is the root mean square of its entries. Of a `peaked` row it is the largest: in a
    narrow dtype rounding can exchange the two largest of S attention weights, an error of nearly 1 in two
    entries, whose root mean square over the row is only sqrt(2 / S). An infinite entry is exact, and does
    not widen the bound of its neighbours.
    """
    value = np.atleast_1d(var.value)
    value = np.where(np.isinf(value), 0.0, value)
    variance = np.zeros_like(value) if var.variance is None else np.atleast_1d(var.variance)
    spread = np.sqrt((variance.max if peaked else variance.mean)(axis=-1, keepdims=True))
    size = np.abs(value).max(axis=-1, keepdims=True, initial=0.0)
    row: Array = FACTOR * (spread + var.eps * size + FLOOR)
    return row if var.ndim else row.reshape(())
