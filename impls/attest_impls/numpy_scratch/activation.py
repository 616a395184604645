"""ReLU, the exact GELU, its approximation by tanh, and SiLU, each with its gradient.

Each works on every number by itself: all arrays have the shape of x, and dx is dy times the slope at x.
GELU(x) = x P(X <= x) for a standard normal X, and P(X <= x) = (1 + erf(x / sqrt 2)) / 2.
"""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Array

from .layers import Cache, Map


class ReLU(Map):
    """max(x, 0): its slope is 1 above zero and 0 elsewhere."""

    def forward(self, x: Array) -> tuple[Array, Cache]:
        y: Array = np.maximum(x, 0)
        return y, y

    def backward(self, dy: Array, cache: Cache) -> Array:
        """The output is above zero exactly where the input is."""
        dx: Array = dy * (cache > 0)
        return dx


class GELU(Map):
    """x Phi(x), Phi the distribution function of the standard normal, phi its density."""

    def forward(self, x: Array) -> tuple[Array, Cache]:
        below = normal_cdf(x)
        return x * below, (x, below)

    def backward(self, dy: Array, cache: Cache) -> Array:
        """By the product rule the slope is Phi(x) + x phi(x): the density is the slope of Phi."""
        x, below = cache
        dx: Array = dy * (below + x * normal_density(x))
        return dx


class SiLU(Map):
    """x s(x), s the logistic function 1 / (1 + exp(-x)), whose slope is s (1 - s)."""

    def forward(self, x: Array) -> tuple[Array, Cache]:
        share = logistic(x)
        return x * share, (x, share)

    def backward(self, dy: Array, cache: Cache) -> Array:
        """By the product rule the slope is s + x s (1 - s) = s (1 + x (1 - s))."""
        x, share = cache
        dx: Array = dy * share * (1 + x * (1 - share))
        return dx


class GELUTanh(Map):
    """x (1 + t) / 2 with t = tanh(u) and u = sqrt(2 / pi) (x + c x^3): close to x Phi(x), and cheaper."""

    c = 0.044715

    def forward(self, x: Array) -> tuple[Array, Cache]:
        t = np.tanh(math.sqrt(2 / math.pi) * (x + self.c * x * x * x))
        return 0.5 * x * (1 + t), (x, t)

    def backward(self, dy: Array, cache: Cache) -> Array:
        """The slope is (1 + t) / 2 + x (1 - t^2) u' / 2, with u' = sqrt(2 / pi) (1 + 3 c x^2).

        This is the product rule, with the chain rule in its second term: tanh(u) moves by 1 - tanh(u)^2 for
        a step of u, and u by u' for a step of x.
        """
        x, t = cache
        du = math.sqrt(2 / math.pi) * (1 + 3 * self.c * x * x)
        dx: Array = dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du)
        return dx


ACTIVATIONS: dict[str, type[Map]] = {"relu": ReLU, "gelu": GELU, "silu": SiLU, "gelu_tanh": GELUTanh}


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), for negative x as exp(x) / (1 + exp(x)): neither exp overflows."""
    e = np.exp(-np.abs(x))
    share: Array = np.where(x < 0, e, 1) / (1 + e)
    return share.astype(x.dtype)


def normal_cdf(x: Array) -> Array:
    """Phi(x): how likely a standard normal number is below x."""
    cdf: Array = 0.5 * (1 + erf(x * math.sqrt(0.5)))
    return cdf


def normal_density(x: Array) -> Array:
    """phi(x), the slope of Phi."""
    density: Array = np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return density


# numpy has no erf. Its Taylor series about the nearest of these centres, at most 1/32 away, needs 12 terms;
# 1 - erf(6) is below 2^-55. The result is within 2e-16 of math.erf.
_SPACING, _END, _TERMS = 1 / 16, 6.0, 12


def _taylor_table() -> Array:
    """(centres, terms): erf(c + d) = sum over n of table[c, n] d^n."""
    centres = np.arange(0, _END + _SPACING, _SPACING)
    slope = [2 / math.sqrt(math.pi) * np.exp(-centres * centres)]  # series of g = erf'; g'(x) = -2 x g(x)
    slope.append(-2 * centres * slope[0])
    for n in range(1, _TERMS - 2):
        slope.append(-2 * (centres * slope[n] + slope[n - 1]) / (n + 1))
    values = np.array([math.erf(c) for c in centres])
    return np.stack([values] + [s / (n + 1) for n, s in enumerate(slope)], axis=1)


_TAYLOR = _taylor_table()


def erf(x: Array) -> Array:
    """The error function, computed in float64 and rounded to the dtype of x."""
    distance = np.fmin(np.abs(x), _END).astype(np.float64)  # fmin takes nan to the end of the table
    centre = np.rint(distance / _SPACING).astype(np.intp)
    d, series = distance - centre * _SPACING, _TAYLOR[centre]
    result = series[..., -1]
    for n in reversed(range(_TERMS - 1)):
        result = result * d + series[..., n]
    return np.where(np.isnan(x), x, np.copysign(result, x)).astype(x.dtype)
