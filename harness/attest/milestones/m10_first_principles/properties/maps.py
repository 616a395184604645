"""M10: attention maps are the weights that the model used."""

from __future__ import annotations

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_same_bits
from attest.judging.property import given, verifies
from attest.milestones.m10_first_principles.cases.maps import MapsCase, maps_cases
from attest.reference.oracle import expected


@verifies("M10.14", effort=0.25)
@given(case=maps_cases())
def attention_maps_are_the_weights_used(impl: JudgedImplementation, case: MapsCase) -> None:
    """Each layer, each head, before dropout; also while training, and after a call with other ids."""
    component = case.loaded(impl)
    component.method("attention_maps", **case.other_ids)
    if hasattr(component.component, "train"):
        component.train(case.seed)
    seen = component.method("attention_maps", **case.inputs)
    component.eval()
    wanted = expected("attention_maps", case.config, case.parameters, case.inputs)
    for name, want in wanted.items():
        expect(name in seen, f"attention_maps returned no {name}")
        expect_close(seen[name], want, f"the maps of {name}", factor=component.widening)


@verifies("M10.14", effort=0.25)
@given(case=maps_cases())
def looking_changes_no_output_bit(impl: JudgedImplementation, case: MapsCase) -> None:
    """Logits before and after, to the bit."""
    component = case.loaded(impl)
    before = component(**case.inputs)["logits"]
    component.method("attention_maps", **case.inputs)
    expect_same_bits(component(**case.inputs)["logits"], before, "logits after attention_maps")
