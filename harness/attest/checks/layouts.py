"""The same numbers in another order in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from attest.contract import Array, Arrays

LAYOUTS = ("transposed", "batch last", "strided", "reversed", "read-only", "expanded", "one array")


def laid_out(inputs: Mapping[str, Any], layout: str, *, keep: Collection[str] = ()) -> dict[str, Any]:
    """The inputs in another memory layout; expanded ones repeat the first row of the batch.

    What is in `keep` is not expanded: a mask says which numbers of which row count. "one array" passes equal
    inputs as one and the same array.
    """
    if layout == "one array":
        return _one_array(inputs)
    return {
        name: x if np.ndim(x) == 0 or (layout == "expanded" and name in keep) else _laid_out(x, layout)
        for name, x in inputs.items()
    }


def parameters_laid_out(parameters: Arrays, layout: str) -> dict[str, Array]:
    """Parameters in another memory layout, with their values as they are."""
    whole = layout in ("one array", "expanded")
    return {name: x if whole else _laid_out(x, layout) for name, x in parameters.items()}


def _one_array(inputs: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, x in inputs.items():
        made[name] = next((y for y in made.values() if _equal(x, y)), x)
    return made


def _equal(x: Any, y: Any) -> bool:
    return np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype and np.array_equal(x, y)


def _laid_out(x: Array, layout: str) -> Array:
    if layout == "strided":
        return _strided(x)
    if layout == "reversed":
        return np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    if layout == "read-only":
        copy = x.copy()
        copy.flags.writeable = False
        return copy
    if x.ndim < 2:
        return x
    if layout == "transposed":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "batch last":
        return np.ascontiguousarray(np.moveaxis(x, 0, -1)).transpose(x.ndim - 1, *range(x.ndim - 1))
    return np.broadcast_to(x[:1], x.shape)


def _strided(x: Array) -> Array:
    """Every other place of a larger array, with other numbers in between."""
    wide = np.repeat(x, 2, -1)
    wide[..., 1::2] = wide[..., 1::2] == 0
    if x.ndim < 2:
        return wide[::2]
    wide = np.repeat(wide, 2, 0)
    wide[1::2] = wide[1::2] == 0
    return wide[::2, ..., ::2]
