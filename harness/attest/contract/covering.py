"""A small table in which every pair of values of two columns appears in some row.

Drawn one by one, combinations of many options are too thin: in 16 cases the one that shows a fault (rotary
positions, another base and more than two features) often does not come. A pairwise table of a dozen options
with two to four values has about twenty rows, and one drawn integer picks a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any

Pair = tuple[int, Any, int, Any]


def pairwise(columns: Mapping[str, Sequence[Any]]) -> tuple[Mapping[str, Any], ...]:
    """Rows over these columns, the first with the first value of each; the same for the same columns."""
    names = tuple(columns)
    rows = _pairwise(tuple(tuple(range(len(columns[n]))) for n in names))
    return tuple({n: columns[n][place] for n, place in zip(names, row, strict=True)} for row in rows)


def each_value(columns: Mapping[str, Sequence[Any]]) -> tuple[Mapping[str, Any], ...]:
    """Rows in which every value appears, as many as the longest column; the row of first values is the last.

    A column that has been gone through begins again at another place than its neighbours, so that values
    which stood together once are told apart later.
    """
    if not all(columns.values()):
        return ()

    def row(number: int) -> Mapping[str, Any]:
        return {
            name: values[(number + _shift(place, number // len(values))) % len(values)]
            for place, (name, values) in enumerate(columns.items())
        }

    count = max((len(values) for values in columns.values()), default=1)
    return tuple(row(number) for number in (*range(1, count), 0))


def _shift(place: int, turn: int) -> int:
    """By how much later a column begins in its n-th turn: a digit of its place, another one in each turn."""
    return place >> (turn - 1) if turn else 0


@cache
def _pairwise(columns: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The same over places in the columns.

    Greedy: a row begins with a pair that is missing, then each column takes the value that adds most missing
    pairs with those that stand already.
    """
    if any(not column for column in columns):
        return ()
    rows = [tuple(0 for _ in columns)]
    missing = _all_pairs(columns)
    while missing:
        missing -= _pairs_of(rows[-1])
        if missing:
            rows.append(_next_row(columns, missing))
    present = {(i, row[i]) for row in rows for i in range(len(columns))}
    alone = [(i, v) for i, column in enumerate(columns) for v in column if (i, v) not in present]
    rows += [tuple(v if i == at else 0 for i in range(len(columns))) for at, v in alone]  # of one column
    return tuple(rows)


def _all_pairs(columns: Sequence[Sequence[int]]) -> set[Pair]:
    return {
        (i, a, j, b)
        for i, j in combinations(range(len(columns)), 2)
        for a, b in product(columns[i], columns[j])
    }


def _pairs_of(row: Sequence[int]) -> set[Pair]:
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}


def _next_row(columns: Sequence[Sequence[int]], missing: set[Pair]) -> tuple[int, ...]:
    i, a, j, b = min(missing)
    row = {i: a, j: b}
    for k in sorted(set(range(len(columns))) - {i, j}):
        row[k] = max(
            columns[k], key=lambda v: (sum(_pair(k, v, o, w) in missing for o, w in row.items()), -v)
        )
    return tuple(row[k] for k in range(len(columns)))


def _pair(i: int, a: int, j: int, b: int) -> Pair:
    return (i, a, j, b) if i < j else (j, b, i, a)
