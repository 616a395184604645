"""M1: ranks and particular values that a formula does not single out, and the mean of dropped attention."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close
from attest.judging.property import given, verifies
from attest.milestones.m01_attention.cases.attention import AttentionCase, attention_cases
from attest.milestones.m01_attention.checks import RATE, expect_mean_of_evaluation
from attest.outcomes import Expected

PARTICULAR = ("zero queries", "zero keys", "zero values", "values beyond 65504", "equal keys")
# Below the smallest normal numbers (1.2e-38 and 2.2e-308), which hardware may be told to flush to zero.
DENORMAL = {"float32": 1e-40, "float64": 1e-310}


@verifies("M1.2", effort=0.25)
@given(case=attention_cases(masks=("none", "shared")))
def any_number_of_leading_axes(impl: JudgedImplementation, case: AttentionCase) -> None:
    """Attention takes (T, d) alone and (B, G, H, T, d), with two leading axes more than (B, T, d)."""
    component = case.loaded(impl)
    for what, inputs in case.other_ranks():
        wanted = case.expected_for(inputs)["output"]
        expect_close(component(**inputs)["output"], wanted, f"output of {what}", factor=component.widening)


@verifies("M1.2", effort=0.5)
@given(case=attention_cases(), which=st.sampled_from(PARTICULAR))
def particular_values_are_no_exception(impl: JudgedImplementation, case: AttentionCase, which: str) -> None:
    """Zeros, equal keys and outputs beyond half precision follow the formula."""
    component, inputs = case.loaded(impl), case.with_particular(which)
    wanted = case.expected_for(inputs)["output"]
    expect_close(component(**inputs)["output"], wanted, f"output for {which}", factor=component.widening)


@verifies("M1.9a", effort=0.5)
@given(case=attention_cases(regimes=("unit",), min_keys=2))
def denormal_values_come_through(impl: JudgedImplementation, case: AttentionCase) -> None:
    """Values below the smallest normal number are mixed, not taken for zeros."""
    if case.dtype not in DENORMAL:
        return
    v = case.inputs["v"]
    inputs = case.with_inputs(v=(np.sign(v) * DENORMAL[case.dtype]).astype(v.dtype))
    wanted = case.expected_for(inputs)
    # All values have one size, so an error of the weights moves the output by as much of it. Below the normal
    # numbers a rounding costs up to half of the smallest one, whatever the value: one for each product and
    # each addition. The bound of the output itself has a floor that is far above these numbers.
    off = wanted["weights"].bound.max() * case.S * DENORMAL[case.dtype]
    step = float(np.finfo(v.dtype).smallest_subnormal) * (case.S + 2)
    component = case.loaded(impl)
    bound = np.full(wanted["output"].value.shape, off + step)
    right = Expected(wanted["output"].value, bound)
    expect_close(component(**inputs)["output"], right, "output", factor=component.widening)


@verifies("M1.3")
def dropped_attention_has_the_mean_of_evaluation(impl: JudgedImplementation) -> None:
    """Over 400 seeds the mean is that of eval, because kept weights are divided by 1 - p."""
    case = AttentionCase(B=1, T=1, S=8, d_k=4, d_v=1, dtype=impl.dtypes[0]).fitted(impl)
    ones = case.with_inputs(q=np.zeros_like(case.inputs["q"]), v=np.ones_like(case.inputs["v"]))
    expect_mean_of_evaluation(impl, case, case.config if case.fixed else case.config.but(dropout=RATE), ones)
