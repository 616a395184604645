"""M4: information flows where it should and nowhere else."""

from __future__ import annotations

from itertools import product
from typing import Any

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect
from attest.checks.flow import Maps, by_gradient, by_perturbation, flow, required_maps
from attest.evidence import current, note_case
from attest.judging.property import given, verifies
from attest.milestones.m04_layers.cases.layers import PARTS, LayerCase, layer_cases
from attest.milestones.m04_layers.checks import has_method
from attest.outcomes import NotOffered

# A map takes one call for every input position, so lengths stay small. A norm of width 2 leaves signs alone,
# so that a real dependence may not show; hence widths from 4.
SMALL: dict[str, Any] = {"regimes": ("unit",), "min_width": 4, "max_length": 4, "max_depth": 2}
SEED = 7  # hides something in each of the masks


@verifies("M4.11")
def information_flows_as_required_on_every_path(impl: JudgedImplementation) -> None:
    """Each output depends on exactly the inputs that it may see, for every norm and mask."""
    for part, norm, mask in product(PARTS, ("post", "pre"), ("none", "padding", "pairs")):
        case = LayerCase(
            part=part, norm=norm, mask=mask, memory_mask=mask, B=2, T=4, S=3, D=8, H=2, F=16, N=2
        )
        case = probed(impl, case.but(seed=SEED).fitted(impl))
        note_case(f"case={case}", part, norm, mask)
        required = required_flow(case)
        seen = by_perturbation(case.loaded(impl), case.inputs, required, seed=case.seed)
        expect_required(case, required, seen, "perturbation")


@verifies("M4.11", effort=0.5)
@given(case=layer_cases(**SMALL))
def information_flows_as_required(impl: JudgedImplementation, case: LayerCase) -> None:
    """An output changes with exactly the inputs of its row that it may see."""
    case = probed(impl, case)
    required = required_flow(case)
    seen = by_perturbation(case.loaded(impl), case.inputs, required, seed=case.seed)
    expect_required(case, required, seen, "perturbation")


@verifies("M4.11", effort=0.5)
@given(case=layer_cases(**SMALL))
def gradients_flow_as_required(impl: JudgedImplementation, case: LayerCase) -> None:
    """An output has a gradient at exactly the inputs of its row that it may see."""
    case = probed(impl, case)
    component, required = case.loaded(impl), required_flow(case)
    if not has_method(component, "gradients"):
        return
    try:
        seen = by_gradient(component, case.inputs, required, case.real, seed=case.seed)
    except NotOffered:
        return
    expect_required(case, required, seen, "gradient")


def probed(impl: JudgedImplementation, case: LayerCase) -> LayerCase:
    """In the most exact dtype; the stack where a layer alone is not offered."""
    return case.or_else(impl, case.part.removesuffix("_layer")).sharpest(impl, rebuild=False)


def required_flow(case: LayerCase) -> Maps:
    """The map of the spec for this part and these masks."""
    memory = case.memory_visible if case.decodes else None
    return required_maps(case.part, case.visible, memory, case.depth)


def expect_required(case: LayerCase, required: Maps, seen: Maps, means: str) -> None:
    """Keep both maps for the report, then compare."""
    found = flow(required, seen, case.real, means=means)
    current().data["flow"] = found.as_data()
    expect(found.agrees, f"{case.part}: {found.sentence()}" if not found.agrees else "")
