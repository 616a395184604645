"""What may have been done to a mask too much: keys more, keys fewer, another order.

Shapes: T queries, S keys; True: may attend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from attest.reference.tape import Array

Rule = Callable[[Array], Array]
Band = Callable[
    [int, Array, Array], Array
]  # of a number, how far keys stand before queries, and their number

COUNTS = (1, 2, 3, 4, 8, 16, 32, 64)


def ahead(mask: Array) -> Array:
    """(T, S): how far a key stands before its query, the last key beside the last query."""
    T, S = mask.shape[-2:]
    found: Array = np.arange(T)[:, None] + S - T - np.arange(S)[None, :]
    return found


def _shown(band: Band, n: int, mask: Array) -> Array:
    shown: Array = mask | band(n, ahead(mask), np.arange(mask.shape[-1]))
    return shown


def _hidden(band: Band, n: int, mask: Array) -> Array:
    kept: Array = mask & ~band(n, ahead(mask), np.arange(mask.shape[-1]))
    return kept


def without_id(name: str, n: int, mask: Array, scope: Mapping[str, Any]) -> Array:
    """The mask without the places of one id."""
    kept: Array = mask & (scope[name] != n)
    return kept


def with_id(name: str, n: int, mask: Array, scope: Mapping[str, Any]) -> Array:
    """The mask with the places of one id."""
    shown: Array = mask | (scope[name] == n)
    return shown


def _own(n: int, before: Array, key: Array) -> Array:
    own: Array = before == 0
    return own


def _behind(n: int, before: Array, key: Array) -> Array:
    behind: Array = (before < 0) & (before >= -n)
    return behind


def _far(n: int, before: Array, key: Array) -> Array:
    return before >= n


def _first(n: int, before: Array, key: Array) -> Array:
    return key < n


def _last(n: int, before: Array, key: Array) -> Array:
    return key >= len(key) - n


def _later(n: int, before: Array, key: Array) -> Array:
    return before < 0


def _earlier(n: int, before: Array, key: Array) -> Array:
    return before > 0


def _counted() -> Iterator[tuple[str, Rule]]:
    for n in COUNTS:
        yield f"{{}} without keys {n} or more places before the query", partial(_hidden, _far, n)
        yield f"{{}} with the {n} keys behind the query", partial(_shown, _behind, n)
        yield f"{{}} without the first {n} keys", partial(_hidden, _first, n)
        yield f"{{}} with the first {n} keys", partial(_shown, _first, n)
        yield f"{{}} without the last {n} keys", partial(_hidden, _last, n)
        yield f"{{}} with the last {n} keys", partial(_shown, _last, n)


RULES: tuple[tuple[str, Rule], ...] = (
    ("the opposite of {}", lambda mask: ~mask),
    ("everything in place of {}", lambda mask: mask | True),
    ("nothing in place of {}", lambda mask: mask & False),
    ("{} one key on", lambda mask: np.roll(mask, 1, -1)),
    ("{} one key back", lambda mask: np.roll(mask, -1, -1)),
    ("{} one query on", lambda mask: np.roll(mask, 1, -2)),
    ("{} one query back", lambda mask: np.roll(mask, -1, -2)),
    ("{} in reverse along the keys", lambda mask: mask[..., ::-1]),
    ("{} in reverse along the queries", lambda mask: mask[..., ::-1, :]),
    ("{} turned over its diagonal", lambda mask: np.swapaxes(mask, -1, -2)),
    ("{} of the first row", lambda mask: mask[:1] | (mask & False)),
    ("{} of the last query", lambda mask: mask[..., -1:, :] | (mask & False)),
    ("{} without the own key", partial(_hidden, _own, 0)),
    ("{} with the own key", partial(_shown, _own, 0)),
    ("{} without keys behind the query", partial(_hidden, _later, 0)),
    ("{} without keys before the query", partial(_hidden, _earlier, 0)),
    *_counted(),
)
