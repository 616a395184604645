"""M9: the encoder-decoder in the manner of T5."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_gradients
from attest.judging.law_checks import formula
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.t5 import T5, T5Case, t5_cases
from attest.outcomes import Expected


@verifies("M9.14", large=1)
@given(case=t5_cases())
def relative_encoder_decoder_equals_its_formula(impl: JudgedImplementation, case: T5Case) -> None:
    """The logits at every real token, with relative positions and every option claimed beside them."""
    formula(impl, case)


@verifies("M9.14")
@given(case=t5_cases(wants=(T5,)))
def t5_equals_its_formula(impl: JudgedImplementation, case: T5Case) -> None:
    """Unscaled scores, RMSNorm, no biases, one table for both sides and for the scaled output."""
    formula(impl, case)


@verifies("M9.14", effort=0.5)
@given(case=t5_cases())
def the_memory_has_no_order(impl: JudgedImplementation, case: T5Case) -> None:
    """The memory in another order, with its padding, gives the same logits, where `decode` is offered."""
    model = case.loaded(impl)
    if not hasattr(model.component, "decode"):
        return
    memory = model.method("encode", source=case.inputs["source"])["memory"]
    inputs = {**case.inputs, "memory": memory}
    seen = model.method("decode", **inputs)["logits"].astype(np.float64)
    other = model.method("decode", **case.shuffled(memory))["logits"]
    wanted = Expected(seen, case.output.bound)
    other = case.specified(other, seen.astype(other.dtype))
    expect_close(other, wanted, "logits with the memory in another order", factor=2 * model.widening)


@verifies("M9.14a", effort=0.5)
@given(case=t5_cases(), size=st.sampled_from((1, 2, 5)))
def cached_steps_keep_the_bias(impl: JudgedImplementation, case: T5Case, size: int) -> None:
    """Targets that are read through a cache, some tokens at a time, get the logits of the formula."""
    model = case.loaded(impl)
    seen, wanted = case.judged(case.in_steps(model, size))
    expect_close(seen, wanted, f"logits of steps of {size} tokens", factor=2 * model.widening)


@verifies("M9.14", effort=0.5)
@given(case=t5_cases())
def gradients_of_shared_tables_are_sums(impl: JudgedImplementation, case: T5Case) -> None:
    """Of every parameter; those of the buckets are sums over layers, of a shared table over its uses."""
    case = case.sharpest(impl)
    model = case.loaded(impl)
    found = model.gradients(case.inputs, case.cotangents())
    expect_gradients(found, case.gradients_for(), factor=model.widening)
