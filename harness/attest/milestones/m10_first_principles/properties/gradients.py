"""M10: backward passes by central differences, by the law of the transpose, and added up."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_zero
from attest.checks.differences import (
    DIRECTIONS,
    expect_differences,
    numerical_gradients,
    transpose_error,
)
from attest.checks.layouts import laid_out
from attest.evidence import current
from attest.judging.property import given, verifies
from attest.milestones.m10_first_principles.cases.layers import LEARNED, PieceCase, piece_cases
from attest.milestones.m10_first_principles.cases.whole import NOISY, TransposeCase, transpose_cases
from attest.outcomes import Expected

SMOOTH = ("unit", "offset")


@verifies("M10.1", effort=0.1)
@given(case=piece_cases(regimes=SMOOTH, min_width=2))
def backward_equals_central_differences(impl: JudgedImplementation, case: PieceCase) -> None:
    """Of every entry of every input and parameter of every layer, with random cotangents."""
    for piece in case.each(impl):
        component, cotangents = piece.loaded(impl), piece.cotangents()
        wanted = numerical_gradients(component, piece.smooth_inputs, piece.parameters, cotangents)
        seen = component.gradients(piece.smooth_inputs, cotangents)
        expect_differences(seen, wanted, piece.dtype, piece.label)


@verifies("M10.1", effort=0.2)
@given(case=piece_cases(), layout=st.sampled_from(("transposed", "strided")))
def backward_of_any_memory_layout(impl: JudgedImplementation, case: PieceCase, layout: str) -> None:
    """Gradients at arrays that are not contiguous are those at their copies."""
    case = case.sharpest(impl)
    component = case.loaded(impl)
    arranged = laid_out(case.inputs, layout)
    copies = {name: np.ascontiguousarray(x) for name, x in arranged.items()}
    wanted = case.gradients_for(copies)
    seen = component.component.gradients(arranged, case.cotangents())
    for name, want in wanted.items():
        found = np.asarray({**seen.inputs, **seen.parameters}[name])
        what = f"the gradient of {name} at {layout} inputs"
        expect_close(found, want, what, factor=2 * component.widening)


def expect_transpose(component: JudgedComponent, case: TransposeCase) -> None:
    """Along at least one of a few directions: a step over a kink spoils one of them, a wrong gradient all."""
    outputs = component(**case.inputs)
    name = case.record.output
    cotangents = case.like({name: outputs[name]}, 11)
    errors = [
        transpose_error(
            component,
            case.inputs,
            case.parameters,
            cotangents,
            (case.like(case.inputs, 20 + i), case.like(case.parameters, 40 + i)),
        )
        for i in range(DIRECTIONS)
    ]
    current().saw(min(errors))
    sentence = f"<dy, J dx> and <J'dy, dx> of {case.operation} differ along each of {DIRECTIONS} directions"
    expect(min(errors) <= 1.0, f"{sentence}, by {min(errors):.3g} times the tolerance or more")


@verifies("M10.2", effort=0.15)
@given(case=transpose_cases())
def backward_is_the_transpose_of_forward(impl: JudgedImplementation, case: TransposeCase) -> None:
    """<dy, J dx> = <J'dy, dx> for single layers, stacks of them and the whole model."""
    for part in case.each(impl):
        expect_transpose(part.loaded(impl), part)


@verifies("M10.6", effort=0.15)
@given(case=transpose_cases(dropout=0.5))
def backward_uses_the_mask_of_forward(impl: JudgedImplementation, case: TransposeCase) -> None:
    """The same law in training with dropout 0.5: another mask backward is another linear map."""
    for part in case.each(impl, NOISY):
        component = part.loaded(impl)
        component.train(part.seed)
        try:
            expect_transpose(component, part)
        finally:
            component.eval()


@verifies("M10.3", effort=0.5)
@given(case=piece_cases(layers=LEARNED, min_width=2))
def a_second_backward_pass_adds_to_the_first(impl: JudgedImplementation, case: PieceCase) -> None:
    """Twice gives twice; another input adds its own; after zeroing nothing is left, and it begins anew."""
    if not impl.offers(case.operation):
        return
    case = case.sharpest(impl)
    component, cotangents = case.loaded(impl), case.cotangents()
    once = {name: case.gradients_for()[name] for name in case.parameters}
    other = {name: -x for name, x in case.inputs.items()}
    elsewhere = case.gradients_for(other)
    component.zero_gradients()
    for times in (1.0, 2.0):
        component.add_gradients(case.inputs, cotangents)
        expect_held(component, {n: _times(want, times) for n, want in once.items()}, f"{times:g} passes")
    component.add_gradients(other, cotangents)
    total = {n: _sum(_times(want, 2.0), elsewhere[n]) for n, want in once.items()}
    expect_held(component, total, "a pass at another input")
    component.zero_gradients()
    for name, value in component.held_gradients().items():
        expect_zero(value, f"the gradient of {name} after zeroing")
    component.add_gradients(case.inputs, cotangents)
    expect_held(component, once, "one pass after zeroing")


def expect_held(component: JudgedComponent, wanted: dict[str, Expected], what: str) -> None:
    """What the component holds, by name."""
    held = component.held_gradients()
    for name, want in wanted.items():
        expect(name in held, f"no gradient of {name} is held after {what}")
        expect_close(held[name], want, f"the gradient of {name} after {what}", factor=component.widening)


def _times(expected: Expected, factor: float) -> Expected:
    return Expected(expected.value * factor, expected.bound * factor)


def _sum(a: Expected, b: Expected) -> Expected:
    return Expected(a.value + b.value, a.bound + b.bound)
