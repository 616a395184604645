"""The arrays that cross the boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


def float_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of arrays that cross the boundary for a compute dtype: float64 for itself, else float32."""
    return np.dtype(np.float64 if dtype == "float64" else np.float32)
