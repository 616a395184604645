"""ReLU and the exact GELU, each with its derivative.

GELU(x) = x P(X <= x) for a standard normal X, and P(X <= x) = (1 + erf(x / sqrt 2)) / 2.
"""

import math

import numpy as np

# numpy has no erf. Its Taylor series about the nearest of these centres, at most 1/32 away, needs 12 terms;
# 1 - erf(6) is below 2^-55. The result is within 2e-16 of math.erf.
_SPACING, _END, _TERMS = 1 / 16, 6.0, 12


def _taylor_table():
    """(centres, terms): erf(c + d) = sum over n of table[c, n] d^n."""
    centres = np.arange(0, _END + _SPACING, _SPACING)
    slope = [2 / math.sqrt(math.pi) * np.exp(-centres * centres)]  # series of g = erf'; g'(x) = -2 x g(x)
    slope.append(-2 * centres * slope[0])
    for n in range(1, _TERMS - 2):
        slope.append(-2 * (centres * slope[n] + slope[n - 1]) / (n + 1))
    values = [math.erf(c) for c in centres]
    return np.stack([values] + [s / (n + 1) for n, s in enumerate(slope)], axis=1)


_TAYLOR = _taylor_table()


def erf(x):
    """The error function, computed in float64 and rounded to the dtype of x."""
    distance = np.fmin(np.abs(x), _END).astype(np.float64)  # fmin takes nan to the end of the table
    centre = np.rint(distance / _SPACING).astype(np.intp)
    d, series = distance - centre * _SPACING, _TAYLOR[centre]
    result = series[..., -1]
    for n in reversed(range(_TERMS - 1)):
        result = result * d + series[..., n]
    return np.where(np.isnan(x), x, np.copysign(result, x)).astype(x.dtype)


def normal_cdf(x):
    return 0.5 * (1 + erf(x * math.sqrt(0.5)))


def normal_density(x):
    return np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


def relu(x):
    return np.maximum(x, 0)


def relu_slope(x):
    return (x > 0).astype(x.dtype)


def gelu(x):
    return x * normal_cdf(x)


def gelu_slope(x):
    return normal_cdf(x) + x * normal_density(x)


# name -> (function, derivative)
ACTIVATIONS = {"relu": (relu, relu_slope), "gelu": (gelu, gelu_slope)}
