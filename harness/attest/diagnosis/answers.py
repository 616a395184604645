"""Whether two answers are the same."""

from __future__ import annotations

import numpy as np

from attest.contract import Array


def close(a: Array, b: Array) -> bool:
    """Whether two answers agree; the tolerance is far wider than rounding, far narrower than any defect."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f" or not a.size:
        return bool(np.array_equal(a, b))
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    slack = 1e-6 if a.dtype == b.dtype == np.float64 else 1e-3
    scale = float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0))
    return bool(np.allclose(a, b, rtol=slack, atol=slack * (0.1 * scale + 1e-6), equal_nan=True))
