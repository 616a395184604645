"""M9: what a layer adds to the stream, and that no parameter is idle."""

from __future__ import annotations

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_same_bits
from attest.contract import Array
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.causal_layers import CausalLayerCase, causal_layer_cases
from attest.milestones.m09_models_of_today.cases.language_models import (
    LanguageModelCase,
    language_model_cases,
)

WRITES = (".output.weight", ".output.bias", ".outer.weight", ".outer.bias")
ROOM = 16.0  # bounds by which a parameter must move the formula before the model is asked to follow


def silenced(parameters: dict[str, Array]) -> dict[str, Array]:
    """With zeros where sublayers write to the residual stream."""
    return {n: np.zeros_like(x) if n.endswith(WRITES) else x for n, x in parameters.items()}


@verifies("M9.6", effort=0.5)
@given(case=causal_layer_cases(wants="norm:pre"))
def a_silent_layer_is_the_identity(impl: JudgedImplementation, case: CausalLayerCase) -> None:
    """With its output maps at zero a pre-norm layer gives x itself, where the layer is offered."""
    if impl.offers(case.operation):
        x = case.inputs["x"]
        seen = case.loaded(impl, silenced(case.parameters))(**case.inputs)["output"]
        expect_same_bits(case.specified(seen, x), x, "output of a layer whose output maps are zero")


@verifies("M9.6", effort=0.5)
@given(case=language_model_cases(wants=("norm:pre",), min_length=2))
def silent_layers_leave_the_embedding(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """With every output map at zero the logits are those of the embedding, its norm and the projection."""
    quiet = silenced(case.parameters)
    model = case.loaded(impl, quiet)
    seen, wanted = model(**case.inputs)["logits"], case.output_for(parameters=quiet)
    seen = case.specified(seen, wanted.value.astype(seen.dtype))
    expect_close(seen, wanted, "logits of a model whose output maps are zero", factor=model.widening)


@verifies("M9.6", effort=0.2)
@given(case=language_model_cases(regimes=("unit",)))
def every_parameter_moves_the_logits(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """Where a changed array moves the formula, it moves the model at least half as far."""
    before = case.loaded(impl)(**case.inputs)["logits"].astype(np.float64)
    for name in case.parameters:
        changed = case.disturbed(name)
        should = case.specified(case.output_for(parameters=changed).value - case.output.value, 0 * before)
        if not np.any(np.abs(should) > ROOM * case.output.bound):
            continue  # the bias of keys, and rows that no id of this case reaches
        most = np.unravel_index(int(np.abs(should).argmax()), should.shape)
        moved = abs(float(case.loaded(impl, changed)(**case.inputs)["logits"][most] - before[most]))
        sentence = f"another {name} moved logits{[int(i) for i in most]} by {moved:.3g}"
        expect(moved >= abs(should[most]) / 2, f"{sentence}, should be {abs(should[most]):.3g}")


@verifies("M9.6", effort=0.2)
@given(case=language_model_cases(regimes=("unit",)))
def every_parameter_gets_a_gradient(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """Each gradient is finite, and not zero throughout unless that of the formula is."""
    case = case.sharpest(impl)
    seen = case.loaded(impl).gradients(case.inputs, case.cotangents()).parameters
    wanted = case.gradients_for()
    for name, gradient in seen.items():
        expect(bool(np.isfinite(gradient).all()), f"the gradient of {name} is not finite")
        taught = np.abs(wanted[name].value).max() > ROOM * float(np.max(wanted[name].bound))
        expect(not taught or bool(np.any(gradient)), f"the gradient of {name} is zero throughout")
