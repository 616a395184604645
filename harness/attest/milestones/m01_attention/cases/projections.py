"""Cases of the three projections of attention. Shapes: x (B, T, D), each weight (D, D)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config
from attest.judging.cases import Case, dtypes, regimes, seeds
from attest.outcomes import Expected
from attest.reference.oracle import EPSILON, expected, random_parameters


@dataclass(frozen=True, kw_only=True)
class ProjectionCase(Case):
    """Random weights and inputs for qkv_projection."""

    kind: ClassVar[str] = "projection"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")

    B: int = 1
    T: int = 1
    D: int = 4
    bias: bool = True

    def fitted(self, impl: JudgedImplementation) -> Self:
        case = super().fitted(impl)
        case = case.but(D=8, bias=True) if impl.policy.one_config else case
        offered = impl.can_build("qkv_projection", case.config)
        return case if offered else case.but(bias=not case.bias)

    @property
    def config(self) -> Config:
        return Config(d_model=self.D, num_heads=1, bias=self.bias, dtype=self.dtype)

    @cached_property
    def parameters(self) -> dict[str, Array]:
        return random_parameters("qkv_projection", self.config, self.rng(1), regime=self.regime)

    @cached_property
    def x(self) -> Array:
        return self.draw(self.rng(), self.B, self.T, self.D)

    @cached_property
    def expected(self) -> dict[str, Expected]:
        return expected("qkv_projection", self.config, self.parameters, {"x": self.x})

    def storing_error(self, name: str) -> float:
        """What rounding to the implementation's dtype may cost a loaded value."""
        return 2 * EPSILON[self.dtype] * float(np.max(np.abs(self.parameters[name]), initial=1e-30))

    def moving(self, name: str) -> dict[str, Array]:
        """The parameters with one weight changed."""
        return {**self.parameters, f"{name}.weight": self.parameters[f"{name}.weight"] + 1}

    def expected_when_moving(self, name: str) -> dict[str, Expected]:
        return expected("qkv_projection", self.config, self.moving(name), {"x": self.x})


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
