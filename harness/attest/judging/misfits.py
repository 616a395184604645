"""Inputs that do not fit an operation, derived from the ports of its record.

Some have no right result and must be refused. Others have one reading: without its batch axis an array can
only be a single row. Those may be refused, or answered as they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from attest.contract import Array, Config, Kind, Operation

Inputs = Mapping[str, Any]
STREAMS = (Kind.FLOATING, Kind.IDS)


def misfits(record: Operation, config: Config, inputs: Inputs) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is wrong, and inputs that have no right result."""
    for name, x in inputs.items():
        for what, wrong in _wrong_arrays(record, config, name, x):
            yield what, {**inputs, name: wrong}
        port = record.takes[name]
        if port.kind in STREAMS and "B" in port.words and len(x) > 1 and _streams(record, inputs) > 1:
            more = np.concatenate([x, x[:1]])
            yield f"{name} with a batch of {len(more)}, others of {len(x)}", {**inputs, name: more}


def _wrong_arrays(record: Operation, config: Config, name: str, x: Any) -> Iterator[tuple[str, Array]]:
    port = record.takes[name]
    if port.kind is Kind.FLOATING and port.words[-1] in record.sizes:
        yield from _wrong_widths(name, x)
    if port.kind is Kind.IDS and port.below in record.reads:
        yield from _unknown_ids(name, x, int(getattr(config, port.below)))
    if port.kind is Kind.MASK:
        more = np.concatenate([x, x[..., -1:]], axis=-1)
        yield f"{name} for {more.shape[-1]} keys out of {x.shape[-1]}", more


def _wrong_widths(name: str, x: Array) -> Iterator[tuple[str, Array]]:
    """One feature too many, one too few, and a single one, which numpy and torch would repeat."""
    width = x.shape[-1]
    wrong = {width + 1: np.concatenate([x, x[..., :1]], -1), width - 1: x[..., :-1], 1: x[..., :1]}
    for size, array in wrong.items():
        if size not in (0, width):
            yield f"{name} of width {size} instead of {width}", array


def _unknown_ids(name: str, x: Array, size: int) -> Iterator[tuple[str, Array]]:
    for id in (size, size + 3, -1, -size):
        wrong = x.copy()
        wrong.flat[-1] = id
        yield f"{name} with id {id} in a vocabulary of {size}", wrong


def _streams(record: Operation, inputs: Inputs) -> int:
    """Inputs that are given, have a batch and must agree about it."""
    given = [record.takes[name] for name in inputs]
    return sum(port.kind in STREAMS and "B" in port.words for port in given)


def other_ranks(record: Operation, inputs: Inputs) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What is unusual, the inputs, and the inputs of the usual rank that they read as. Masks are left out."""
    batched = {name: x for name, x in inputs.items() if "B" in record.takes[name].words}
    kept = {name: x for name, x in batched.items() if record.takes[name].kind is not Kind.MASK}
    if not kept:
        return
    single = {name: x[:1] for name, x in kept.items()}
    yield "inputs without a batch axis", {name: x[0] for name, x in single.items()}, single
    yield "inputs with a further axis after the batch", {n: x[:, None] for n, x in kept.items()}, kept
