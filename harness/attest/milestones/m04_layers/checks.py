"""What the criteria of layers and stacks share: load, call, compare where the output is specified."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_near, expect_same_bits, expect_shape
from attest.contract import Array
from attest.evidence import note_case
from attest.judging.laws import FORMULA
from attest.milestones.m04_layers.cases.layers import LayerCase
from attest.outcomes import Expected

# 1, then small and odd lengths, then one beyond 8 and one beyond 16, where blocks end.
LENGTHS = (1, 2, 3, 4, 5, 9, 17)
NARROW = ("float16", "bfloat16")


def output_of(component: JudgedComponent, inputs: Mapping[str, Any]) -> Array:
    """Its output for these inputs."""
    seen = component(**inputs)
    expect("output" in seen, f"{component.operation} returned {sorted(seen)}, should return output")
    expect_shape(seen["output"], np.shape(inputs["x"]), "output")
    return seen["output"]


def expect_output(
    impl: JudgedImplementation, case: LayerCase, seen: Array, wanted: Expected, *, factor: float = 1.0
) -> None:
    """Within the bound at every position that is not padding."""
    settled = case.specified(seen, wanted.value)
    expect_close(settled, wanted, "output", factor=factor * impl.factor(case.part))


def expect_same_output(case: LayerCase, seen: Array, before: Array, what: str) -> None:
    """To the bit at every position that is not padding."""
    expect_same_bits(case.specified(seen, before), before, what)


def expect_parameters(component: JudgedComponent, wanted: Mapping[str, Array], dtype: str) -> None:
    """Each of these names, with these values; to the bit unless the dtype is a narrow one."""
    seen = component.parameters()
    for name, value in wanted.items():
        expect(name in seen, f"{name} is not among the parameters of {component.operation}")
        if dtype in NARROW:
            expect_near(seen[name], value, 1e-2, name, relative=1e-2)
        else:
            expect_same_bits(seen[name].astype(value.dtype), value, name)


def expect_any_length(impl: JudgedImplementation, part: str) -> None:
    """One component, called at these lengths in turn, equals the reference each time."""
    for T, mask in product(LENGTHS, ("none", "padding")):
        case = LayerCase(part=part, B=2, T=T, S=max(2, 18 - T), D=8, H=2, F=16, N=2, seed=T)
        case = case.but(mask=mask, memory_mask=mask, dtype=impl.dtypes[0]).fitted(impl)
        note_case(f"case={case}", part, f"T={T}")
        FORMULA.check(impl, case)


def has_method(component: JudgedComponent, method: str) -> bool:
    """Whether the component has an optional method."""
    return callable(getattr(component.component, method, None))
