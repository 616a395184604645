"""The functions of CUDA's libdevice in numpy, by the names that Triton calls them.

They are computed in float64 and rounded once, so they are closer to the exact value than the GPU's, which may
be off by one or two units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attest.contract import Array

PREFIX = "__nv_"


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        return np.asarray(np.vectorize(_total(function), otypes=[np.float64])(x))

    return apply


def _total(function: Callable[[float], float]) -> Callable[[float], float]:
    """Python's function, with infinity where it overflows and nan where it has no value."""

    def call(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return call


# Functions of numbers; the GPU's name has an f behind it for float32.
FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    **{n: getattr(np, n) for n in ("sqrt", "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "cbrt")},
    **{n: getattr(np, n) for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc")},
    **{
        n: getattr(np, n) for n in ("rint", "fmin", "fmax", "fmod", "hypot", "copysign", "nextafter", "ldexp")
    },
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "fabs": np.abs,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp10": lambda x: np.power(10.0, x),
    "pow": np.power,
    "powi": np.power,
    "nearbyint": np.rint,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "tgamma": _each(math.gamma),
    "lgamma": _each(math.lgamma),
    "fma": lambda a, b, c: a * b + c,
    "fdim": lambda a, b: np.maximum(a - b, 0.0),
    "saturate": lambda x: np.clip(x, 0.0, 1.0),
}
# Functions whose name says the rounding, and those that answer yes or no.
ROUNDED: Mapping[str, Callable[..., Array]] = {
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
    "fsqrt": np.sqrt,
    "frcp": lambda x: 1 / x,
    "frsqrt": lambda x: 1 / np.sqrt(x),
    "dadd": np.add,
    "dsub": np.subtract,
    "dmul": np.multiply,
    "ddiv": np.divide,
    "dsqrt": np.sqrt,
    "drcp": lambda x: 1 / x,
}
PREDICATES: Mapping[str, Callable[..., Array]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinited": np.isfinite,
    "finite": np.isfinite,
    "signbit": np.signbit,
}


def function_of(symbol: str) -> Callable[..., Array]:
    """What a symbol such as `__nv_rsqrtf` computes; NotImplementedError where it is not known here."""
    name = symbol.removeprefix(PREFIX)
    fast = name.removeprefix("fast_")  # approximations, which are more exact here
    if name.endswith("_rn"):
        found = ROUNDED.get(name.removesuffix("_rn"))
    else:
        found = FUNCTIONS.get(fast) or FUNCTIONS.get(fast.removesuffix("f"))
        found = found or PREDICATES.get(name) or PREDICATES.get(name.removesuffix("f").removesuffix("d"))
    if found is None:
        raise NotImplementedError(
            f"libdevice's {symbol} is unknown to the interpreter; use a function of triton.language.math"
        )
    return found


def apply(symbol: str, arrays: list[Any], dtype: Any) -> Array:
    """The function on numpy arrays, rounded to the dtype of the result."""
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in arrays]
    with np.errstate(all="ignore"):
        return np.asarray(function_of(symbol)(*wide)).astype(dtype)
