"""The operations of the tape: value, backward closure and error variance of each.

The variance rules are first order: independent roundings add in squares. `eps` is half a unit in the last
place of the precision that is judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attest.reference.tape import (
    FACTOR,
    Array,
    Operand,
    Var,
    constant,
    node,
    rounded,
    tracks_error,
    unbroadcast,
    variance_of,
)


def matmul(a: Var, b: Var) -> Var:
    """a @ b over the last two axes; leading axes broadcast."""
    value = rounded(a.value @ b.value)
    return node(value, (a, b), lambda g: _matmul_backward(a, b, g), _matmul_variance(a, b, value))


def mix(weights: Var, values: Var) -> Var:
    """weights @ values, where a weight of exactly zero removes even nan and infinity."""
    # Variances hold squares and products of squares, which overflow beyond 1e154; nan compares False.
    tame = np.abs(values.value) <= 1e100
    if tame.all():
        return _exchanged(matmul(weights, values), weights, values)
    clean = where(tame, values, 0.0)
    seen = (weights.value != 0).astype(np.float64) @ (~tame).astype(np.float64)
    return where(seen == 0, matmul(weights, clean), weights.value @ values.value)


NARROW = 2.0**-11  # the eps of float16; that of bfloat16 is larger


def _exchanged(mixed: Var, weights: Var, values: Var) -> Var:
    """In half precision rounding exchanges two weights: one gains what the other loses.

    Their errors are opposite, so that the output's error is their sum and not the root of their squares: at
    most sqrt(2) times as large.
    """
    if weights.eps >= NARROW and weights.variance is not None and mixed.variance is not None:
        mixed.variance = mixed.variance + weights.variance @ (values.value * values.value)
    return mixed


def _matmul_backward(a: Var, b: Var, g: Array) -> tuple[Array | None, Array | None]:
    ga = unbroadcast(g @ b.value.swapaxes(-1, -2), a.shape) if a.needs_gradient else None
    gb = unbroadcast(a.value.swapaxes(-1, -2) @ g, b.shape) if b.needs_gradient else None
    return ga, gb


def _matmul_variance(a: Var, b: Var, value: Array) -> Array | None:
    eps = tracks_error(a, b)
    if not eps:
        return None
    # A sum of n terms t_i is rounded n times, each time by eps of the partial sum. For terms of random
    # signs the square of a partial sum is on average the sum of the t_i^2 in it, so that all roundings
    # together are at most n eps^2 sum(t_i^2). A sum that came out large, as the largest of many scores did,
    # grew on its way: given the whole s, partial sum j is on average j s / n, and the squares of these add up
    # to n s^2 / 3. Without that term a softmax by powers of two was refused at 130 keys of width 96, whose
    # largest score had an error ten times that of its row. The 1 is the rounding of the result when it is
    # stored.
    squared = b.value * b.value
    inner = squared * (eps * eps * a.shape[-1])
    if b.variance is not None:
        inner = inner + b.variance
    variance: Array = (a.value * a.value) @ inner + (1 + a.shape[-1] / 3) * (eps * value) ** 2
    return variance if a.variance is None else variance + a.variance @ squared


def add(a: Operand, b: Operand) -> Var:
    a, b = constant(a), constant(b)
    value, shapes = a.value + b.value, (a.shape, b.shape)
    eps = tracks_error(a, b)
    variance = variance_of(a) + variance_of(b) + (eps * value) ** 2 if eps else None
    return node(value, (a, b), lambda g: (unbroadcast(g, shapes[0]), unbroadcast(g, shapes[1])), variance)


def add_to_product(product: Var, bias: Var, terms: int) -> Var:
    """product + bias, where the bias may be added first or last.

    Libraries begin the sum of a linear map with its bias: each of the n roundings is then one of bias +
    partial sum. With j s / n for the partial sum of a whole s, as in `matmul`, their squares add up to
    n (b^2 + b s + s^2 / 3), of which the product counts the last. Inputs far smaller than the bias showed it:
    the worst error of 250 float64 cases was 0.28 of the bound without this term, and 0.17 with the bias last.
    """
    total = add(product, bias)
    if total.variance is None:
        return total
    b, s, eps = bias.value, product.value, tracks_error(product, bias)
    total.variance = total.variance + terms * eps * eps * (b * b + np.maximum(b * s, 0.0))
    return total


def sub(a: Operand, b: Operand) -> Var:
    return add(a, scale(constant(b), -1.0))


def mul(a: Operand, b: Operand) -> Var:
    """Elementwise product of two Vars."""
    a, b = constant(a), constant(b)
    x, y = a.value, b.value
    eps = tracks_error(a, b)
    variance = variance_of(a) * y * y + variance_of(b) * x * x + (eps * x * y) ** 2 if eps else None
    return node(x * y, (a, b), lambda g: (unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)), variance)


def scale(a: Var, factor: Operand) -> Var:
    """A constant, exactly known factor (a number or an array) times `a`."""
    if isinstance(factor, Var):
        return mul(a, factor)
    value = a.value * factor
    variance = variance_of(a) * np.square(factor) + (a.eps * value) ** 2 if a.eps else None
    return node(value, (a,), lambda g: (unbroadcast(g * factor, a.shape),), variance)


def softmax(a: Var, allowed: Array | None = None) -> Var:
    """Over the last axis; exactly zero where not allowed, a row that may see nothing is zeros."""
    x = a.value if allowed is None else np.where(allowed, a.value, -np.inf)
    top = x.max(axis=-1, keepdims=True)
    top = np.where(top == -np.inf, 0.0, top)
    raised = np.exp(x - top)
    total = raised.sum(axis=-1, keepdims=True)
    p = rounded(raised / np.where(total == 0, 1.0, total))
    return node(
        p, (a,), lambda g: (_softmax_backward(p, g, allowed, a.shape),), _softmax_variance(a, x, top, p)
    )


def _softmax_backward(p: Array, g: Array, allowed: Array | None, shape: tuple[int, ...]) -> Array:
    if allowed is not None:
        g = np.where(allowed, g, 0.0)  # 0 * nan is nan
    return unbroadcast(p * (g - (g * p).sum(axis=-1, keepdims=True)), shape)


def _softmax_variance(a: Var, x: Array, top: Array, p: Array) -> Array | None:
    if not a.eps:
        return None
    # The difference x - top is rounded by eps of its size, which is at most |x| + |top|.
    error = np.sqrt(variance_of(a)) + a.eps * (np.abs(x) + np.abs(top))
    squared = np.where(np.isfinite(x), error * error, 0.0)
    # dp_i = p_i (dx_i - sum_j p_j dx_j): the variance is p_i^2 ((1 - 2 p_i) e_i^2 + sum_j p_j^2 e_j^2).
    shared = (p * p * squared).sum(axis=-1, keepdims=True)
    linear = p * np.sqrt(np.maximum(squared * (1 - 2 * p) + shared, 0.0))
    inherited = np.square(np.maximum(linear, _flipped(x, top, p, squared, shared, linear)))
    # Relative to p: 2 eps for exp, which libraries keep within one unit in the last place; 1 for the
    # division, 1 more where it is a product with the reciprocal. A sum of n positive terms in sequence: at
    # most n independent roundings, each eps of a partial sum that is at most the whole, hence sqrt(n).
    variance: Array = inherited + ((4 + math.sqrt(p.shape[-1])) * a.eps * p) ** 2
    return variance


def _flipped(x: Array, top: Array, p: Array, squared: Array, shared: Array, linear: Array) -> Array:
    """What a weight gains or loses when its log-odds move by FACTOR deviations, divided by FACTOR.

    `bound` counts to FACTOR deviations. The linear error while that is small. Where rounding moves scores by
    whole units, as bfloat16 does to large ones, the largest weight and one of almost nothing change places:
    both errors have one cause and add up, which is at most sqrt(2) times their root of squares. The odds are
    those of a score against all others, taken from the scores: weights of 1 and 0 no longer tell how far
    apart they are.
    """
    # p_i = logistic(o_i) with o_i = x_i - log(sum of exp(x_j) over all others). An error of the scores
    # moves o_i with variance e_i^2 + sum over the others of (q_j e_j)^2, q_j being the weights of the
    # others among themselves: p_j / (1 - p_i). The largest score is set apart, because 1 - p_i loses all
    # digits there.
    first = np.zeros(p.shape, bool)
    np.put_along_axis(first, x.argmax(-1)[..., None], True, -1)
    rest = np.where(first, -np.inf, x)
    second = rest.max(axis=-1, keepdims=True)
    second = np.where(second == -np.inf, 0.0, second)
    raised = np.exp(rest - second)
    total = raised.sum(axis=-1, keepdims=True)
    q = raised / np.where(total == 0, 1.0, total)  # the weights of all but the first
    others = np.where(first, 1.0, 1 - p)
    with np.errstate(divide="ignore", invalid="ignore"):
        all_of_them = top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True))
        odds = np.where(first, x - second - np.log(total), x - all_of_them - np.log(others))
        far = np.where(np.isfinite(x), np.abs(odds), np.inf)
    theirs = np.where(first, (q * q * squared).sum(axis=-1, keepdims=True), (shared - p * p * squared))
    moved = np.sqrt(squared + np.maximum(theirs, 0.0) / others**2)
    # The logistic function is symmetric: what p gains from -far upwards, 1 - p loses from far downwards.
    change = _logistic(FACTOR * moved - far) - _logistic(-far)
    # Only what the linear rule does not foresee can be two weights changing places; that part is raised to
    # sqrt(2) times itself, since two equal errors e of one cause add up to 2 e where squares give sqrt(2) e.
    sudden = np.maximum(change - FACTOR * linear, 0.0)
    share: Array = (change + (math.sqrt(2) - 1) * sudden) / FACTOR
    return share


def _logistic(x: Array) -> Array:
    made: Array = 0.5 * (1 + np.tanh(0.5 * x))
    return made


def log_softmax(a: Var) -> Var:
    """Over the last axis, with the maximum taken out first."""
    shifted = a.value - a.value.max(axis=-1, keepdims=True)
    total = np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    value = shifted - total
    p = rounded(np.exp(value))
    variance = None
    if a.eps:
        width = p.shape[-1]
        # The roundings of x, of x - max and of the result, each eps of its size. The logarithm of the sum
        # is off by the relative error of the sum (2 eps for exp, sqrt(n) for n additions) and its own 2
        # eps.
        own = np.square(a.eps * (np.abs(a.value) + np.abs(shifted) + np.abs(value) + 4 + math.sqrt(width)))
        error = variance_of(a) + own
        variance = error + (p * p * error).sum(axis=-1, keepdims=True)
    return node(value, (a,), lambda g: (g - p * g.sum(axis=-1, keepdims=True),), variance)


def log_sum_exp(a: Var, allowed: Array | None = None) -> Var:
    """log(sum(exp(x))) over the last axis, of what is allowed; minus infinity where nothing is."""
    x = a.value if allowed is None else np.where(allowed, a.value, -np.inf)
    top = x.max(axis=-1, keepdims=True)
    top = np.where(top == -np.inf, 0.0, top)
    raised = np.exp(x - top)
    summed = raised.sum(axis=-1, keepdims=True)
    value = (top + np.log(summed))[..., 0]
    p = rounded(raised / np.where(summed == 0, 1.0, summed))

    def backward(g: Array) -> tuple[Array]:
        seen = np.where(summed == 0, 0.0, g[..., None])
        return (unbroadcast(p * seen, a.shape),)

    return node(value, (a,), backward, _log_sum_exp_variance(a, x, top, p))


def _log_sum_exp_variance(a: Var, x: Array, top: Array, p: Array) -> Array | None:
    if not a.eps:
        return None
    # The differences x - top are rounded as in softmax. A score that rises by FACTOR deviations e raises the
    # result by log(1 + p (exp(FACTOR e) - 1)), which is FACTOR p e while that is small; 500 keeps exp finite.
    error = np.sqrt(variance_of(a)) + a.eps * (np.abs(x) + np.abs(top))
    error = np.where(np.isfinite(x), error, 0.0)
    moved = np.log1p(p * np.expm1(np.minimum(FACTOR * error, 500.0))) / FACTOR
    # The sum: 2 eps for exp, sqrt(n) for n additions; the logarithm 2 more; then it is added to the largest.
    value = np.where(p.sum(axis=-1) > 0, top[..., 0] + np.log(np.exp(x - top).sum(axis=-1)), 0.0)
    own = a.eps * (4 + math.sqrt(p.shape[-1]) + np.abs(value))
    variance: Array = (moved * moved).sum(axis=-1) + own * own
    return variance


def relu(a: Var) -> Var:
    positive = a.value > 0
    variance = None
    if a.variance is not None:
        # A negative value may come out positive elsewhere while it is within a few deviations of zero; of
        # normal errors 3 in 100,000 lie beyond 4.
        variance = np.where(a.value > -4 * np.sqrt(a.variance), a.variance, 0.0)
    return node(np.where(positive, a.value, 0.0), (a,), lambda g: (np.where(positive, g, 0.0),), variance)


def elementwise(a: Var, value: Array, slope: Array) -> Var:
    """Any function applied element by element, given its values and its derivative at `a`."""
    variance = variance_of(a) * slope * slope + (a.eps * value) ** 2 if a.eps else None
    return node(value, (a,), lambda g: (g * slope,), variance)


def exp(a: Var) -> Var:
    """Elementwise; minus infinity gives 0."""
    value = np.exp(a.value)
    return elementwise(a, value, value)


def erf(x: Array) -> Array:
    """The error function of the C library, elementwise."""
    flat = np.fromiter(map(math.erf, x.ravel().tolist()), dtype=np.float64, count=x.size)
    return flat.reshape(x.shape)


def gelu(a: Var) -> Var:
    """x times the normal distribution function of x: the exact form, not the tanh approximation."""
    x = a.value
    cdf = 0.5 * (1.0 + erf(x / math.sqrt(2.0)))
    slope = cdf + x * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    # The slope is largest at x = sqrt(2), where it is 1.1289. The distribution function is known to eps in
    # absolute terms, not relative ones (1 + erf cancels for negative x), and the product is rounded once
    # more: 2 eps |x|.
    variance = 1.13**2 * variance_of(a) + (2 * a.eps * x) ** 2 if a.eps else None
    return node(x * cdf, (a,), lambda g: (g * slope,), variance)


def layer_norm(a: Var, weight: Var, bias: Var, eps: float) -> Var:
    """Over the last axis: biased variance, eps inside the root."""
    x = a.value
    # Means are rounded where bounds of gradients are measured. Of a single feature both differences below are
    # zero by cancellation, and a right implementation has a rounding of x or gh left, times r: r is 316 for a
    # constant row and eps 1e-5.
    centred = x - rounded(x.mean(axis=-1, keepdims=True))
    r = 1.0 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
    h = rounded(centred * r)
    value = h * weight.value + bias.value

    def backward(g: Array) -> tuple[Array, Array, Array]:
        gh = g * weight.value
        along = rounded(gh.mean(axis=-1, keepdims=True) + h * (gh * h).mean(axis=-1, keepdims=True))
        return r * (gh - along), unbroadcast(g * h, weight.shape), unbroadcast(g, bias.shape)

    variance = _norm_variance(a, weight, h, r, value) if tracks_error(a, weight, bias) else None
    return node(value, (a, weight, bias), backward, variance)


def _norm_variance(a: Var, weight: Var, h: Array, r: Array, value: Array) -> Array:
    x, eps, width = a.value, tracks_error(a, weight), a.shape[-1]
    # dy = r w (dx - mean(dx) - h mean(h dx)). The error of x - mean: what x brings, the rounding of the
    # difference (eps |x|) and that of the mean (eps times the mean of |x|). `common` is the variance of the
    # two means: of n independent errors a mean has 1/n of the average variance.
    mean_size = np.abs(x).mean(axis=-1, keepdims=True)
    error = variance_of(a) + (eps * x) ** 2 + (eps * mean_size) ** 2
    common = (
        error.mean(axis=-1, keepdims=True) + h * h * (h * h * error).mean(axis=-1, keepdims=True)
    ) / width
    variance: Array = r * r * (error + common) * weight.value**2
    # 4: the mean of squares, the root, the division, and the product with the weight.
    return variance + (4 * eps * h * weight.value) ** 2 + (eps * value) ** 2 + variance_of(weight) * h * h


def take(table: Var, ids: Array, learned: Array | None = None) -> Var:
    """Rows of a table; positions where `learned` is False pass no gradient to their row."""

    def backward(g: Array) -> tuple[Array]:
        rows = np.zeros(table.shape, g.dtype)
        np.add.at(rows, ids, g if learned is None else np.where(learned[..., None], g, 0.0))
        return (rows,)

    variance = None if table.variance is None else table.variance[ids]
    return node(table.value[ids], (table,), backward, variance)


def reshape(a: Var, shape: Sequence[int]) -> Var:
    variance = None if a.variance is None else a.variance.reshape(shape)
    return node(a.value.reshape(shape), (a,), lambda g: (g.reshape(a.shape),), variance)


def swap(a: Var, i: int = -1, j: int = -2) -> Var:
    """Two axes exchanged."""
    variance = None if a.variance is None else a.variance.swapaxes(i, j)
    return node(a.value.swapaxes(i, j), (a,), lambda g: (g.swapaxes(i, j),), variance)


def index(a: Var, key: Any) -> Var:
    """a[key], for any numpy subscript."""

    def backward(g: Array) -> tuple[Array]:
        whole = np.zeros(a.shape, g.dtype)
        np.add.at(whole, key, g)
        return (whole,)

    return node(a.value[key], (a,), backward, None if a.variance is None else a.variance[key])


def columns(a: Var, start: int, stop: int) -> Var:
    """a[..., start:stop]."""

    def backward(g: Array) -> tuple[Array]:
        whole = np.zeros(a.shape, g.dtype)
        whole[..., start:stop] = g
        return (whole,)

    return node(
        a.value[..., start:stop], (a,), backward, None if a.variance is None else a.variance[..., start:stop]
    )


def concat(parts: Sequence[Var], axis: int = -1) -> Var:
    """Joined along an existing axis."""
    cuts = np.cumsum([part.shape[axis] for part in parts])[:-1].tolist()
    value = np.concatenate([part.value for part in parts], axis=axis)
    variance = None
    if tracks_error(*parts):
        spread = [np.broadcast_to(variance_of(part), part.shape) for part in parts]
        variance = np.concatenate(spread, axis=axis)
    return node(value, tuple(parts), lambda g: np.split(g, cuts, axis=axis), variance)


def stack(parts: Sequence[Var], axis: int) -> Var:
    """Joined along a new axis."""
    shape = list(parts[0].shape)
    shape.insert(axis % (len(shape) + 1), 1)  # list.insert counts -1 from before the last element
    return concat([reshape(part, shape) for part in parts], axis=axis)


def total(a: Var) -> Var:
    """The sum of all elements."""
    value = a.value.sum()
    variance = None
    if a.eps:
        own = a.value.size * np.square(a.eps * a.value)  # n roundings of a sum, as in `matmul`
        variance = np.asarray(np.sum(variance_of(a) + own) + (a.eps * value) ** 2)
    return node(np.asarray(value), (a,), lambda g: (np.broadcast_to(g, a.shape),), variance)


def sum_last(a: Var) -> Var:
    """The sum over the last axis."""
    value = a.value.sum(axis=-1)
    variance = None
    if a.eps:
        own = a.shape[-1] * np.square(a.eps * a.value)  # n roundings of a sum, as in `matmul`
        variance = (variance_of(a) + own).sum(axis=-1) + (a.eps * value) ** 2
    return node(value, (a,), lambda g: (np.broadcast_to(g[..., None], a.shape),), variance)


def mean(a: Var) -> Var:
    """The mean of all elements."""
    return scale(total(a), 1.0 / a.value.size)


def where(mask: Array, a: Var, other: float | Array) -> Var:
    """`a` where the mask holds, a constant elsewhere."""
    value = np.where(mask, a.value, other)
    variance = None if a.variance is None else np.where(mask, a.variance, 0.0)
    return node(value, (a,), lambda g: (unbroadcast(np.where(mask, g, 0.0), a.shape),), variance)
