"""Parameters to begin with, and random ones that hide nothing behind zeros."""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Config, float_dtype, operation_of
from attest.contract.parameters import Shapes, shapes
from attest.reference.tape import Array


def initial_parameters(operation: str, config: Config, named: Shapes) -> dict[str, Array]:
    """Xavier-uniform weights, zero biases, norms 1 and 0, embeddings N(0, 1/D) with a zero pad row."""
    rng = np.random.default_rng([config.seed, 1])
    dtype = float_dtype(config.dtype)
    return {
        name: _initial(operation, name, shape, config, rng).astype(dtype) for name, shape in named.items()
    }


def _initial(
    operation: str, name: str, shape: tuple[int, ...], config: Config, rng: np.random.Generator
) -> Array:
    if name in operation_of(operation).tables:
        table = rng.normal(0.0, 1.0 / math.sqrt(config.d_model), shape)
        if config.pad_id is not None and config.pad_id < shape[0]:
            table[config.pad_id] = 0.0
        return table
    if len(shape) == 1:
        return np.ones(shape) if name.endswith("weight") else np.zeros(shape)
    return xavier(shape, rng)


def xavier(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Uniform with variance 2 / (fan_in + fan_out)."""
    limit = math.sqrt(6.0 / (shape[0] + shape[1]))
    return rng.uniform(-limit, limit, shape)


def random_parameters(
    operation: str, config: Config, rng: np.random.Generator, *, regime: str = "unit"
) -> dict[str, Array]:
    """Weights at their initial scale, biases and norms away from 0 and 1; saturated: 4 times W_q and W_k."""
    dtype = float_dtype(config.dtype)
    values = {}
    for name, shape in shapes(operation, config).items():
        value = _random(operation, name, shape, config, rng)
        if regime == "saturated" and name.endswith(("query.weight", "key.weight")):
            value = 4.0 * value
        values[name] = value.astype(dtype)
    return values


def _random(
    operation: str, name: str, shape: tuple[int, ...], config: Config, rng: np.random.Generator
) -> Array:
    if name in operation_of(operation).tables:
        return _initial(operation, name, shape, config, rng)
    if len(shape) == 1:
        centre = 1.0 if name.endswith("weight") else 0.0
        return centre + rng.normal(0.0, 0.1, shape)
    return xavier(shape, rng)
