"""M9: the norm by the root of the mean square."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_near, expect_refused
from attest.contract import float_dtype
from attest.evidence import note_case
from attest.judging.laws import (
    FORMULA,
    GRADIENTS,
    MEMORY_LAYOUT,
    ROW_ALONE,
    SIDE_EFFECTS_IN_TRAINING,
    law_holds,
)
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.norms import RmsCase, rms_cases
from attest.outcomes import Expected
from attest.reference.oracle import EPSILON

law_holds(
    FORMULA,
    "M9.1",
    rms_cases(),
    "rms_norm",
    name="rms_norm_equals_its_formula",
    sentence="x / sqrt(mean(x^2) + eps) * gain in every regime, for several eps.",
)
law_holds(ROW_ALONE, "M9.1", rms_cases(), "rms_norm", name="a_normed_row_alone", effort=0.3)
law_holds(MEMORY_LAYOUT, "M9.1", rms_cases(), "rms_norm", name="norm_of_any_memory_layout", effort=0.5)
law_holds(GRADIENTS, "M9.17", rms_cases(), "rms_norm", name="gradients_of_the_norm_are_right")
law_holds(
    SIDE_EFFECTS_IN_TRAINING, "M9.19", rms_cases(), "rms_norm", name="the_norm_leaves_no_trace", effort=0.5
)


@verifies("M9.1")
def rms_norm_of_a_worked_example(impl: JudgedImplementation) -> None:
    """(3, 4) with eps 1/2 has mean square 12.5, so the output is (3, 4) / sqrt(13) times the gains."""
    case = RmsCase(dtype=impl.dtypes[0], D=2, eps=0.5)
    note_case("x=(3, 4) gain=(2, -1) eps=0.5", "worked by hand")
    component = impl.build("rms_norm", case.config)
    dtype = float_dtype(case.dtype)
    component.load({"weight": np.array([2, -1], dtype)})
    wanted = np.array([[[6, -4]]]) / np.sqrt(13)
    # The numbers are near 1; 16 roundings are more than the formula has.
    tolerance = 16 * EPSILON[case.dtype]
    seen = component(x=np.array([[[3, 4]]], dtype))["output"]
    expect_near(seen, wanted, tolerance, "output")


@verifies("M9.2")
@given(case=rms_cases(), factor=st.sampled_from((0.01, 0.125, 3.0, 1000.0)))
def rms_norm_ignores_scale(impl: JudgedImplementation, case: RmsCase, factor: float) -> None:
    """A factor c on x acts as eps / c^2 in place of eps, and in no other way."""
    component, x = case.loaded(impl), case.far_from_eps
    factor = min(factor, case.in_range(1e9) / 1000)  # float16 ends where others do not
    scaled = (x * factor).astype(x.dtype)
    before, after = component(x=x)["output"].astype(np.float64), component(x=scaled)["output"]
    square = np.square(x, dtype=np.float64).mean(-1, keepdims=True)
    wanted = before * np.sqrt((square + case.eps) / (square + case.eps / factor**2))
    # x * factor is rounded before the norm sees it, which moves an output by at most twice as much.
    rounding = 2 * EPSILON[case.dtype] * np.abs(before).max(-1, keepdims=True)
    bound = case.output_for({"x": x}).bound + case.output_for({"x": scaled}).bound + rounding
    what = f"output for {factor:g} times the input"
    expect_close(after, Expected(wanted, bound), what, factor=component.widening)


@verifies("M9.2")
@given(case=rms_cases(min_width=2, regimes=("unit",)), shift=st.sampled_from((-2.0, 1.0, 5.0)))
def rms_norm_sees_a_shift(impl: JudgedImplementation, case: RmsCase, shift: float) -> None:
    """Adding a constant moves the output by at least half of what the formula says."""
    component = case.loaded(impl)
    moved = (case.x + shift).astype(case.x.dtype)
    should = np.abs(case.output_for({"x": moved}).value - case.output.value)
    most = tuple(int(i) for i in np.unravel_index(int(should.argmax()), should.shape))
    outputs = [component(x=x)["output"][most].astype(np.float64) for x in (case.x, moved)]
    seen = abs(float(outputs[1] - outputs[0]))
    sentence = f"adding {shift:g} to every feature moved output{list(most)} by {seen:.3g}"
    expect(seen >= should[most] / 2, f"{sentence}, should be {should[most]:.3g}")


@verifies("M9.18")
@given(case=rms_cases(min_width=2), width=st.sampled_from((-1, 0, 1)))
def the_norm_refuses_another_width(impl: JudgedImplementation, case: RmsCase, width: int) -> None:
    """One feature fewer, one more, and a single one that would broadcast are refused."""
    component = case.loaded(impl)
    x = np.ones((case.B, case.T, 1 if width == 0 else case.D + width), case.x.dtype)
    expect_refused(lambda: component.component(x=x), f"x of shape {x.shape} with d_model={case.D}")
