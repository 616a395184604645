"""Whether answers are as exact as a smaller floating-point format would make them.

Such answers lie too near the right ones to be compared with those of a known defect: rounding errors of two
programs are never the same. That all of them are off by so much, and none by more, is what tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attest.contract import Array
from attest.diagnosis.traces import Trace, told
from attest.records.failure import Deviant

FEWEST = 8  # answers
EXACT = 8  # numbers; the largest error of fewer is small by chance
MOST = 0.6  # of the answers; a small number, or one that is exact in both formats, has a smaller error
# Of the format that an answer is given in: the one it was computed in, and the limits of errors of that one.
# Some grow, where one number is subtracted from another later.
COARSER = {
    "float64": ("single precision", 2.0**-28, 2.0**-21),
    "float32": ("half precision", 2.0**-15, 2.0**-9),
}
GROWN = 32.0


def coarseness(traces: Sequence[Trace]) -> tuple[Deviant, ...]:
    """The format as which most answers are exact; nothing where some are far more exact or far off."""
    by_dtype: dict[str, list[float]] = {}
    for trace in traces:
        for k in trace.compared:
            mine, right = (told(trace.steps, k, v) for v in (trace.steps[k].values, trace.right[k].values))
            for place in mine.keys() & right.keys():
                dtype, shape = mine[place].dtype.name, mine[place].shape
                if dtype in COARSER and shape == right[place].shape and mine[place].size >= EXACT:
                    by_dtype.setdefault(dtype, []).append(_error(mine[place], right[place]))
    return tuple(said for dtype, errors in by_dtype.items() if (said := _said(dtype, errors)) is not None)


def _error(seen: Array, right: Array) -> float:
    """The largest error over the largest number."""
    size = float(np.abs(right).max())
    return float(np.abs(seen - right).max()) / size if size and np.isfinite(seen).all() else 0.0


def _said(dtype: str, errors: Sequence[float]) -> Deviant | None:
    name, low, high = COARSER[dtype]
    coarse = sorted(error for error in errors if error > low)
    if len(coarse) < max(FEWEST, MOST * len(errors)):
        return None
    if coarse[len(coarse) // 2] > high or coarse[9 * len(coarse) // 10] > GROWN * high:
        return None
    return Deviant("precision", dtype, name, len(coarse))
