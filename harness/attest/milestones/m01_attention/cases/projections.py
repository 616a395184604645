"""Cases of the three projections of attention. Shapes: x (B, T, D), each weight (D, D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.cases import OperationCase, dtypes, regimes, seeds
from attest.reference.oracle import EPSILON


@dataclass(frozen=True, kw_only=True)
class ProjectionCase(OperationCase):
    """Random weights and inputs for qkv_projection."""

    kind: ClassVar[str] = "projection"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    operates: ClassVar[str] = "qkv_projection"
    settings: ClassVar[Mapping[str, str]] = {"D": "d_model", "bias": "bias"}

    B: int = 1
    T: int = 1
    D: int = 4
    bias: bool = True

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"D": 8, "bias": True}

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        return ({"bias": not self.bias},)

    def storing_error(self, name: str) -> float:
        """What rounding to the implementation's dtype may cost a loaded value."""
        return 2 * EPSILON[self.dtype] * float(np.max(np.abs(self.parameters[name]), initial=1e-30))

    def moving(self, name: str) -> dict[str, Array]:
        """The parameters with one weight changed."""
        return {**self.parameters, f"{name}.weight": self.parameters[f"{name}.weight"] + 1}


def projection_cases() -> st.SearchStrategy[ProjectionCase]:
    """Widths from 1, with and without biases."""
    return st.builds(
        ProjectionCase,
        B=st.integers(1, 3),
        T=st.integers(1, 6),
        D=st.integers(1, 12),
        bias=st.booleans(),
        regime=regimes(),
        dtype=dtypes(),
        seed=seeds(),
    )
