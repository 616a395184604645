"""Inputs of any operation, made from the ports of its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Array, Config, Kind, Operation, Port, float_dtype

WIDTHS = {"d": 12, "d_v": 5, "H": 2}  # of operations whose config does not say them


def inputs_of(
    record: Operation,
    config: Config,
    lengths: Mapping[str, int],
    rng: np.random.Generator,
    *,
    masks: bool = False,
    lowest: int = 1,
) -> dict[str, Any]:
    """Normal numbers and ids from `lowest` on, by name. `lengths` has B, and T and S where they occur.

    With `masks` every mask is key padding that hides the last key of the last row, unless it is the only one.
    """
    sizes = {**WIDTHS, "V": config.target_vocab, **lengths}
    sizes |= {word: getattr(config, name) for word, name in record.sizes.items()}
    made: dict[str, Any] = {}
    for name, port in record.takes.items():
        shape = tuple(sizes["B" if word == "..." else word] for word in port.words if word != "1")
        if port.kind is Kind.FLOATING:
            made[name] = rng.standard_normal(shape).astype(float_dtype(config.dtype))
        if port.kind is Kind.IDS and port.below and (kinds := _bound(port, config, sizes)):
            made[name] = rng.integers(min(lowest, kinds - 1), kinds, shape)
        if port.kind is Kind.IDS and not port.below:
            made[name] = _counted(shape)
        if port.kind is Kind.MASK and port.per:
            made[name] = np.ones((1, *(-(-n // getattr(config, port.per)) for n in shape[1:])), bool)
        elif port.kind is Kind.MASK and masks:
            made[name] = _key_padding(shape[0], shape[-1])
    return made


def _bound(port: Port, config: Config, sizes: Mapping[str, int]) -> int:
    return sizes[port.below] if port.below in sizes else int(getattr(config, port.below))


def _counted(shape: tuple[int, ...]) -> Array:
    """Positions: each row counts on from another place."""
    first: Array = np.arange(shape[0])[:, None]
    return first + np.arange(shape[-1])[None, :]


def _key_padding(B: int, S: int) -> Array:
    keys = np.ones((B, 1, S), bool)
    keys[-1, :, max(1, S - 1) :] = False
    return keys
