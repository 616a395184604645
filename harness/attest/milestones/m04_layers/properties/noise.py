"""M4: gradients in train mode, where what is dropped belongs to the call."""

from __future__ import annotations

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect
from attest.contract import Array
from attest.evidence import current
from attest.judging.property import given, verifies
from attest.milestones.m04_layers.cases.layers import LayerCase, layer_cases
from attest.outcomes import NotClaimed

LAYERS = ("encoder_layer", "decoder_layer")
# Step of the difference quotient, and how far it may be from the gradient: rounding is divided by the step,
# and the bend of the function within the step counts too.
STEPS = {"float64": (1e-5, 1e-3), "float32": (1e-2, 5e-2)}


@verifies("M4.16", effort=0.25)
@given(case=layer_cases(parts=LAYERS, regimes=("unit",), min_width=4, min_length=3))
def gradients_in_training_are_those_of_the_call(impl: JudgedImplementation, case: LayerCase) -> None:
    """Along a drawn direction the gradient is the difference quotient of outputs with the same noise."""
    case = case.or_else(impl, LAYERS[0]).sharpest(impl, rebuild=False)
    if case.dtype not in STEPS:
        raise NotClaimed(f"a difference quotient in {case.dtype} has no digits")
    component, cotangents = case.loaded(impl), case.cotangents()
    (name, share), (step, allowed) = next(iter(cotangents.items())), STEPS[case.dtype]
    x, direction = case.inputs["x"], case.draw(case.rng(12), *case.inputs["x"].shape)

    def along(by: float) -> float:
        moved: Array = (x + by * direction).astype(x.dtype)
        seen = component(**case.with_inputs(x=moved))[name]
        return float((seen.astype(np.float64) * share).sum())

    component.train(case.seed)
    try:
        terms = component.gradients(case.inputs, cotangents).inputs["x"].astype(np.float64) * direction
        quotient = (along(step) - along(-step)) / (2 * step)
    finally:
        component.eval()
    gradient, size = float(terms.sum()), float(np.abs(terms).sum()) + 1e-12
    apart = abs(gradient - quotient) / size
    current().saw(apart / allowed)
    along_it = f"the gradient of x along a direction is {gradient:.6g} in train mode"
    expect(apart <= allowed, f"{along_it}, the difference quotient of the outputs {quotient:.6g}")
