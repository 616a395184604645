"""What the criteria ask: the right value, how far from it a correct implementation may be, and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from attest.contract import Arrays, Config, Gradients, operation_of
from attest.outcomes import Expected
from attest.reference.assembly import Parts, oracle_parts
from attest.reference.initial import random_parameters
from attest.reference.memory import remembered
from attest.reference.operations import run
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, bound, gradients, in_precision, leaf, rounding

__all__ = ["EPSILON", "bounded_gradients", "expected", "expected_gradients", "random_parameters"]

# half a unit in the last place of 1
EPSILON: Mapping[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
_NARROW = frozenset({"float16", "bfloat16"})  # inputs are rounded on the way in

# The tape follows rounding errors forwards only. The error of a gradient is allowed as a multiple of the
# array's scale, for sums over batch, positions and features whose terms do not cancel, plus a multiple of
# what the gradient moves under small disturbances, for terms that do. Both multiples are chosen with room,
# not derived: a wrong gradient is off by a share of its scale, and 1024 roundings of float32 are 6e-5 of it.
# Measured on 10,212 gradient arrays of eager and numpy_scratch (280 random cases of attention, multi-head
# attention, both embeddings, both layers and the transformer, in float32 and float64): the worst uses 0.30 of
# what is allowed. Neither term is enough alone: 75 arrays are further off than 1024 roundings of their scale
# (up to 7,100), and 176 are off though nothing moved. Where something moved, the worst was off by 33
# times its movement.
GRADIENT_FACTOR = 1024.0
NOISE_FACTOR = 64.0


@remembered
def expected(operation: str, config: Config, parameters: Arrays, inputs: Arrays) -> dict[str, Expected]:
    """The named outputs in evaluation mode, with bounds for the config's dtype.

    Besides the operations of the contract: `encode` and `decode`, with the parameters of a transformer.
    """
    eps = EPSILON[config.dtype]
    with np.errstate(all="ignore"):
        outputs = _run(operation, config, parameters, inputs, eps=eps, gradient=False)[0]
        return {
            # One large weight among many has the error of the row: a mean over 130 keys would hide it.
            name: Expected(var.value, bound(var, peaked=name == "weights"))
            for name, var in outputs.items()
        }


def expected_gradients(
    operation: str, config: Config, parameters: Arrays, inputs: Arrays, cotangents: Arrays
) -> Gradients:
    """Float64 gradients of the sum of <cotangent, output>, for floating inputs and all parameters."""
    with np.errstate(all="ignore"):
        outputs, p, taped = _run(operation, config, parameters, inputs, eps=0.0, gradient=True)
        leaves = {name: x for name, x in taped.items() if isinstance(x, Var)}
        asked = [(outputs[name], cotangents[name]) for name in cotangents]
        found = gradients(asked, [*leaves.values(), *p.values.values()])
    return Gradients(inputs=dict(zip(leaves, found)), parameters=dict(zip(p.values, found[len(leaves) :])))


@lru_cache(maxsize=64)
def _parts(config: Config) -> Parts:
    """The oracle's parts for a config, kept because their table of positions is dear to make."""
    return oracle_parts(config)


def _run(
    operation: str, config: Config, parameters: Arrays, inputs: Arrays, *, eps: float, gradient: bool
) -> tuple[dict[str, Var], Scope, dict[str, Any]]:
    error = eps if config.dtype in _NARROW else 0.0
    p = Scope({name: leaf(x, eps=eps, error=error, gradient=gradient) for name, x in parameters.items()})
    floating = operation_of(operation).floating
    taped = {
        name: leaf(x, eps=eps, error=error, gradient=gradient) if name in floating else np.asarray(x)
        for name, x in inputs.items()
        if x is not None
    }
    return run(_parts(config), operation, p, taped), p, taped


@remembered
def bounded_gradients(
    operation: str, config: Config, parameters: Arrays, inputs: Arrays, cotangents: Arrays
) -> dict[str, Expected]:
    """Gradients of floating inputs and parameters by name, each with one distance for the whole array.

    The distance is 1024 roundings of the array's own scale, plus 64 times what it moves in two runs whose
    inputs, parameters, cotangents and inner results are off by a few roundings: cancellation is the formula's
    own.
    """
    with in_precision(np.longdouble if config.dtype == "float64" else np.float64):
        exact = _merged(expected_gradients(operation, config, parameters, inputs, cotangents))
    eps = EPSILON[config.dtype]
    scale = max((float(np.max(np.abs(g), initial=0.0)) for g in exact.values()), default=0.0)
    moved = [_perturbed(operation, config, parameters, inputs, cotangents, eps, seed) for seed in (0, 1)]
    found = {}
    for name, gradient in exact.items():
        own = float(np.max(np.abs(gradient), initial=0.0))
        noise = max(float(np.max(np.abs(m[name] - gradient), initial=0.0)) for m in moved)
        # A hundredth of the largest gradient of the call counts as scale too: an array of zeros (the bias
        # of the keys) is the difference of numbers of that size.
        allowed = GRADIENT_FACTOR * eps * (own + 1e-2 * scale) + NOISE_FACTOR * noise + 1e-30
        found[name] = Expected(gradient.astype(np.float64), np.asarray(allowed))
    return found


def _perturbed(
    operation: str,
    config: Config,
    parameters: Arrays,
    inputs: Arrays,
    cotangents: Arrays,
    eps: float,
    seed: int,
) -> dict[str, Array]:
    rng = np.random.default_rng(seed)

    def near(x: Array) -> Array:
        # Normal with 4 eps, not uniform within 1: two runs stand for all ways of rounding.
        return x.astype(np.float64) * (1 + 4 * eps * rng.standard_normal(np.shape(x)))

    wide = config.but(dtype="float64")
    floating = operation_of(operation).floating
    close = {name: near(x) if name in floating and x is not None else x for name, x in inputs.items()}
    weights = {name: near(x) for name, x in parameters.items()}
    # A gradient may be little more than a sum of cotangents, as that of a bias is: they are rounded too.
    off = {name: near(np.asarray(c)) for name, c in cotangents.items()}
    with rounding(rng, 4 * eps):
        return _merged(expected_gradients(operation, wide, weights, close, off))


def _merged(gradients: Gradients) -> dict[str, Array]:
    return {**gradients.inputs, **gradients.parameters}
