"""What each law asks of one case. `attest.judging.laws` gives them names and ties them to criteria."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation, fresh, guarded
from attest.checks.arrays import expect, expect_close, expect_gradients, expect_refused, expect_same_bits
from attest.checks.layouts import LAYOUTS, laid_out, parameters_laid_out
from attest.checks.side_effects import expect_no_side_effects, overwritten
from attest.contract import Array, float_dtype
from attest.judging.cases import OperationCase
from attest.judging.misfits import misfits, other_ranks
from attest.outcomes import Expected, NotOffered

LENGTHS = ((1, 1), (2, 3), (40, 41))  # T and S; one component is called at these in turn, and back
RATE = 0.4  # of dropout, so that train mode is not eval mode


def formula(impl: JudgedImplementation, case: OperationCase) -> None:
    """Every output within the bound."""
    component = case.loaded(impl)
    expect_outputs(case, component(**case.inputs), case.expected, component.widening)


def expect_outputs(
    case: OperationCase, seen: dict[str, Array], wanted: dict[str, Expected], factor: float, what: str = ""
) -> None:
    """Each output of the record, where the spec says what it is."""
    for name in case.record.gives:
        settled = case.specified(seen[name], wanted[name].value)
        expect_close(settled, wanted[name], f"{name}{what}", factor=factor)


def any_length(impl: JudgedImplementation, case: OperationCase) -> None:
    """One component with one set of weights at length 1, 2, more, its own, and back again."""
    longest = case.at_length(*max(LENGTHS[-1], case.own_lengths)).fitted(impl)
    component = longest.loaded(impl)
    for T, S in (*LENGTHS, case.own_lengths, LENGTHS[1], LENGTHS[0]):
        other = longest.at_length(T, S).fitted(impl)
        seen = component(**other.inputs)
        wanted = other.expected_for(parameters=longest.parameters)
        expect_outputs(other, seen, wanted, component.widening, f" at length {T} after other lengths")


def row_alone(impl: JudgedImplementation, case: OperationCase) -> None:
    """Each row of the batch, called by itself."""
    component, bound = case.loaded(impl), case.output.bound
    name = case.record.output
    seen = case.specified(component(**case.inputs)[name], case.output.value).astype(np.float64)
    for row in range(len(seen)):
        whole = seen.copy()
        whole[row] = component(**case.alone(row))[name][0]
        alone = case.specified(whole, seen)[row : row + 1]
        wanted = Expected(seen[row : row + 1], bound[row : row + 1])
        expect_close(alone, wanted, f"row {row} alone", factor=2 * component.widening)


def memory_layout(impl: JudgedImplementation, case: OperationCase) -> None:
    """Inputs and masks in every other order in memory, and parameters that were loaded so."""
    component = case.loaded(impl)
    for layout in LAYOUTS:
        expect_layout(case, component, layout)


def expect_layout(case: OperationCase, component: JudgedComponent, layout: str) -> None:
    """What contiguous copies give."""
    masks = {name for name in case.inputs if case.is_mask(name)}
    arranged = laid_out(case.inputs, layout, keep=masks)
    contiguous = {name: np.ascontiguousarray(x) for name, x in arranged.items()}
    wanted = case.expected_for(contiguous) if layout == "expanded" else case.expected
    factor = 2 * component.widening
    expect_outputs(case, component.as_given(**arranged), wanted, factor, f" for {layout} inputs")
    if case.parameters:
        component.load_as_given(parameters_laid_out(case.parameters, layout))
        expect_outputs(case, component(**contiguous), wanted, factor, f" for {layout} parameters")


def gradients(impl: JudgedImplementation, case: OperationCase) -> None:
    """Of the inputs and every parameter. Large cases stay in their dtype: long double would take seconds."""
    case = case.but(dtype=impl.dtypes[0]) if case.is_large else case.sharpest(impl)
    component = case.loaded(impl)
    seen = component.gradients(case.inputs, case.cotangents())
    expect_gradients(seen, case.gradients_for(), factor=component.widening)


def side_effects(impl: JudgedImplementation, case: OperationCase) -> None:
    """A call in eval mode."""
    component = case.loaded(impl)
    expect_no_side_effects(component, case.inputs)


def side_effects_in_training(impl: JudgedImplementation, case: OperationCase) -> None:
    """A call in eval mode and one in train mode."""
    side_effects(impl, case)
    component = case.loaded(impl)
    if hasattr(component.component, "train"):
        expect_no_side_effects(component, case.inputs, train_seed=case.seed)
        component.eval()


def dtype(impl: JudgedImplementation, case: OperationCase) -> None:
    """In each dtype that is offered; one alone where every config costs a build."""
    for word in (case.dtype,) if case.fixed else impl.dtypes:
        other = case.but(dtype=word).fitted(impl)
        seen, wanted = other.loaded(impl)(**other.inputs), float_dtype(other.dtype)
        for name in case.record.gives:
            found = f"{name} has dtype {seen[name].dtype} where dtype={other.dtype!r}"
            expect(seen[name].dtype == wanted, f"{found}, should be {wanted}")


def refusals(impl: JudgedImplementation, case: OperationCase) -> None:
    """An exception where no result is right."""
    component = case.loaded(impl)
    for what, inputs in misfits(case.record, component.config, case.inputs):
        expect_refused(_call(component, inputs), f"{case.operation} of {what}")


def ranks(impl: JudgedImplementation, case: OperationCase) -> None:
    """An exception, or what the inputs can only be meant as."""
    component = case.loaded(impl)
    for what, inputs, reads_as in other_ranks(case.record, case.inputs):
        answer = component.accepted(**inputs)
        if answer is not None:
            name, wanted = case.record.output, case.output_for(reads_as)
            seen = answer[name]
            same_size = seen.size == wanted.value.size
            seen = seen.reshape(wanted.value.shape) if same_size else seen
            expect_close(seen, wanted, f"{name} of {what}", factor=component.widening)


def _call(component: JudgedComponent, inputs: dict[str, Any]) -> Callable[[], Any]:
    return lambda: component.component(**fresh(inputs))


def state(impl: JudgedImplementation, case: OperationCase) -> None:
    """A component depends on its own weights and mode, and on nothing that a caller does beside it."""
    component = case.loaded(impl)
    before = component(**case.inputs)[case.record.output]
    expect_two_apart(impl, case, component, before)
    expect_copies(case, component, before)
    expect_mode_kept(impl, case)


def expect_two_apart(
    impl: JudgedImplementation, case: OperationCase, component: JudgedComponent, before: Array
) -> None:
    """Two components of one config with different weights, called in turn."""
    if not case.parameters:
        return
    name, other = case.record.output, case.but(seed=case.seed + 1).parameters
    second = case.unloaded(impl)
    second.load(other)
    wanted = case.expected_for(parameters=other)
    expect_outputs(case, second(**case.inputs), wanted, component.widening, " of a second component")
    after = case.specified(component(**case.inputs)[name], before)
    expect_same_bits(after, before, f"{name} after another component of this config was loaded and called")


def expect_copies(case: OperationCase, component: JudgedComponent, before: Array) -> None:
    """What was loaded, and what `parameters` returned, are the caller's to overwrite."""
    if not case.parameters:
        return
    name, given = case.record.output, fresh(case.parameters)
    component.load_as_given(given)
    overwritten(given)
    expect_same_bits(
        component(**case.inputs)[name], before, f"{name} after the arrays given to load were overwritten"
    )
    if hasattr(component.component, "parameters"):
        overwritten(guarded(f"{case.operation}.parameters", component.component.parameters))
        seen = component(**case.inputs)[name]
        expect_same_bits(seen, before, f"{name} after the arrays from parameters() were overwritten")


def expect_mode_kept(impl: JudgedImplementation, case: OperationCase) -> None:
    """No method but `train` and `eval` changes the mode: the same call gives the same bits after each."""
    component = _dropping(impl, case)
    if not hasattr(component.component, "train"):
        return
    name, modes = case.record.output, {"train": lambda: component.train(case.seed), "eval": component.eval}
    for mode, switch in modes.items():
        switch()
        before = component(**case.inputs)[name]
        for method, call in _methods(case, component):
            with suppress(NotOffered):
                call()
            seen = component(**case.inputs)[name]
            expect_same_bits(seen, before, f"{name} in {mode} mode after {method}()")
    component.eval()


def _dropping(impl: JudgedImplementation, case: OperationCase) -> JudgedComponent:
    """With a rate at which train mode shows, unless that costs a build or is not offered."""
    drops = "dropout" in case.record.reads and not case.fixed
    rated = case.config.but(dropout=RATE) if drops else case.config
    config = rated if impl.can_build(case.operation, rated) else case.config
    component = impl.build(case.operation, config)
    component.load(case.parameters)
    return component


def _methods(case: OperationCase, component: JudgedComponent) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The methods that leave the mode alone."""
    yield "parameters", component.parameters
    yield "load", lambda: component.load(case.parameters)
    if hasattr(component.component, "buffers"):
        yield "buffers", component.buffers
    yield "gradients", lambda: component.gradients(case.inputs, case.cotangents())
