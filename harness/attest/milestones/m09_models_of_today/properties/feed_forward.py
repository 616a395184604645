"""M9: the feed-forward network with a gate, and the activations that came with it."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_refused
from attest.judging.laws import FORMULA, GRADIENTS, SIDE_EFFECTS_IN_TRAINING, law_holds
from attest.judging.options import takes
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.feed_forward import GatedCase, gated_cases
from attest.outcomes import Expected

law_holds(
    FORMULA,
    "M9.3",
    gated_cases(),
    "feed_forward",
    name="gated_feed_forward_equals_its_formula",
    sentence="outer(act(gate x) * inner x) in every regime, with each activation that is offered.",
)
law_holds(
    FORMULA,
    "M9.3",
    gated_cases(ungated=True),
    "feed_forward",
    name="new_activations_without_a_gate",
    sentence="outer(act(inner x)) with silu and gelu_tanh, where they are offered without a gate.",
    effort=0.5,
)


def without_bias(case: GatedCase, output: np.ndarray) -> np.ndarray:
    """What the product of gate and inner features gives."""
    bias = case.parameters.get("outer.bias")
    values = output.astype(np.float64)
    return values if bias is None else values - bias


@verifies("M9.3")
@given(case=gated_cases(), factor=st.sampled_from((-2.0, 3.0)))
def the_output_is_linear_in_inner(impl: JudgedImplementation, case: GatedCase, factor: float) -> None:
    """Weights and bias of inner times a factor give the output, less its bias, times that factor."""
    scaled, plain = case.scaled("inner", factor), case.loaded(impl)(x=case.x)["output"]
    component = case.loaded(impl, scaled)
    seen = component(x=case.x)["output"]
    bound = abs(factor) * case.output.bound + case.output_for(parameters=scaled).bound
    wanted = Expected(factor * without_bias(case, plain), bound)
    expect_close(
        without_bias(case, seen), wanted, f"output for {factor:g} times inner", factor=component.widening
    )


@verifies("M9.3")
@given(case=gated_cases())
def the_output_is_not_linear_in_gate(impl: JudgedImplementation, case: GatedCase) -> None:
    """Weights of the gate times -2 do not give the output times -2."""
    scaled, plain = case.scaled("gate", -2.0), case.loaded(impl)(x=case.x)["output"]
    seen = case.loaded(impl, scaled)(x=case.x)["output"]
    formula = case.output_for(parameters=scaled).value, case.output.value
    should = np.abs(without_bias(case, formula[0]) + 2 * without_bias(case, formula[1]))
    missed = np.abs(without_bias(case, seen) + 2 * without_bias(case, plain))
    bound = case.output_for(parameters=scaled).bound + 2 * case.output.bound
    most = tuple(int(i) for i in np.unravel_index(int((should / bound).argmax()), should.shape))
    if should[most] > 4 * np.broadcast_to(bound, should.shape)[most]:
        sentence = f"with -2 times the gate, output{list(most)} misses -2 times itself by {missed[most]:.3g}"
        expect(missed[most] >= should[most] / 2, f"{sentence}, should be {should[most]:.3g}")


@verifies("M9.3", effort=0.5)
@given(case=gated_cases())
def without_inner_features_the_bias_is_left(impl: JudgedImplementation, case: GatedCase) -> None:
    """With weights and bias of inner at zero the output is the bias of outer, for any gate."""
    silent = case.scaled("inner", 0.0)
    component = case.loaded(impl, silent)
    wanted = case.output_for(parameters=silent)
    expect_close(component(x=case.x)["output"], wanted, "output without inner features")


@verifies("M9.17")
@given(case=gated_cases())
def gradients_of_the_gated_network_are_right(impl: JudgedImplementation, case: GatedCase) -> None:
    """Gradients of x, through both maps, and of every parameter are right."""
    if takes(impl, "feed_forward", case.config):
        GRADIENTS.check(impl, case)


@verifies("M9.18", effort=0.3)
@given(case=gated_cases(), name=st.sampled_from(("no_such", "SiLU", "")))
def an_unknown_activation_of_a_gate_is_refused(
    impl: JudgedImplementation, case: GatedCase, name: str
) -> None:
    """An unknown activation is refused on construction or by the first call."""
    if takes(impl, "feed_forward", case.config):
        config = impl.with_run_options(case.config.but(activation=name))
        expect_refused(lambda: impl.raw_build("feed_forward", config)(x=case.x), f"activation={name!r}")


@verifies("M9.19", effort=0.5)
@given(case=gated_cases())
def the_gated_network_leaves_no_trace(impl: JudgedImplementation, case: GatedCase) -> None:
    """A call leaves inputs, random state and flags as they were, in eval and in train mode."""
    if takes(impl, "feed_forward", case.config):
        SIDE_EFFECTS_IN_TRAINING.check(impl, case)
