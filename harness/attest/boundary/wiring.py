"""Parameters under other names or shapes than the contract's: one mistake, which no formula explains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attest.contract import Arrays

SHOWN = 3


def wiring_fault(operation: str, wanted: Arrays, own: Arrays) -> str:
    """How the names and shapes of a component differ from the canonical ones; empty where they agree."""
    differences = [
        _named("lacks", [name for name in wanted if name not in own]),
        _named("has the unknown", [name for name in own if name not in wanted]),
        *_other_shapes(wanted, own),
    ]
    found = [text for text in differences if text]
    if not found:
        return ""
    remedy = f"map the names, `attest list --parameters {operation}` prints them"
    return f"the parameters of {operation} are not wired: it {' and '.join(found)}; {remedy}"


def _named(what: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{what} {', '.join(names[:SHOWN])}{more}" if names else ""


def _other_shapes(wanted: Arrays, own: Arrays) -> list[str]:
    shapes = [(name, np.shape(own[name]), np.shape(wanted[name])) for name in wanted if name in own]
    return [f"has {name} of shape {a}, not {b}" for name, a, b in shapes if a != b][:SHOWN]
