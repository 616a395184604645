"""What a call must leave alone: its inputs, its memory, the global random state and flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attest.boundary import JudgedComponent, arrays_of, fresh, guarded
from attest.checks.arrays import expect, expect_same_bits
from attest.contract import Array
from attest.machine import interprets_triton
from attest.outcomes import NotRun
from attest.sealed.looking import bytecodes, changed_since, global_state, stir

__all__ = [
    "bytecodes",
    "changed_since",
    "expect_no_side_effects",
    "global_state",
    "overwritten",
    "python_work",
    "undisturbed",
]


def expect_no_side_effects(
    component: JudgedComponent,
    inputs: Mapping[str, Any],
    *,
    outputs: tuple[str, ...] = (),
    train_seed: int | None = None,
) -> None:
    """Call the bare component; nothing but the returned arrays may be new. In eval unless a seed is given."""
    if train_seed is None:
        component.eval()
    else:
        component.train(train_seed)
    given, held = fresh(inputs), component.parameters()
    first, changed = guarded(component.operation, lambda: _watched(component, given))
    expect(not changed, f"{component.operation} changed {', '.join(changed)}")
    for name, value in _arrays(inputs).items():
        expect_same_bits(given[name], value, f"the input {name}")
    results = arrays_of(first, component.operation)
    _expect_own_memory(first, given)
    _expect_repeats(component, inputs, first, {name: results[name] for name in outputs or results})
    for name, value in component.parameters().items():
        expect_same_bits(value, held[name], f"the parameter {name}")


def _watched(component: JudgedComponent, given: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The result of a call, and which global state it changed."""
    stir()
    before = global_state()
    result = component.component(**given)
    return result, changed_since(before)


def _arrays(inputs: Mapping[str, Any]) -> dict[str, Array]:
    return {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}


def _is_floating(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _another(x: Any) -> Any:
    """An input of the same shape and as valid: numbers negated, ids with their rows in another order."""
    if _is_floating(x):
        return -x
    return np.roll(x, 1, axis=0) if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.ndim else x


def _expect_own_memory(results: Mapping[str, Array], given: Mapping[str, Any]) -> None:
    for name, array in results.items():
        for source, value in _arrays(given).items():
            shares = np.shares_memory(array, value)
            expect(not shares, f"{name} shares memory with the input {source}")


def _expect_repeats(
    component: JudgedComponent,
    inputs: Mapping[str, Any],
    first: Mapping[str, Array],
    results: Mapping[str, Array],
) -> None:
    """A second call gives the same, leaves the first result alone, and does not depend on it."""
    component(**{name: _another(x) for name, x in inputs.items()})
    for name, value in results.items():
        expect_same_bits(np.array(first[name]), value, f"{name} kept from the first call")
    again = component(**inputs)
    for name, value in results.items():
        expect_same_bits(again[name], value, f"{name} of a second call")
        if isinstance(first[name], np.ndarray) and first[name].flags.writeable:
            first[name].fill(1)  # where the result is the component's own memory, this spoils it
    again = component(**inputs)
    for name, value in results.items():
        expect_same_bits(again[name], value, f"{name} after an earlier result was overwritten")


def python_work(component: JudgedComponent, inputs: Mapping[str, Array]) -> int:
    """Bytecodes of a warm call of the bare component; the fewest of three: a cache may still fill in one."""
    if interprets_triton():
        raise NotRun("bytecodes say nothing under TRITON_INTERPRET: Triton's interpreter executes its own")
    given = fresh(inputs)

    def call() -> Any:
        return component.component(**given)

    def count() -> int:
        return min(bytecodes(call) for _ in range(3))

    counted = int(guarded(component.operation, count))
    if counted == 0:  # even a call into C takes a few bytecodes to begin
        raise RuntimeError("no bytecode was counted, so tracing does not work in this Python")
    return counted


def undisturbed(label: str, call: Callable[[], Any]) -> Any:
    """The result of a call that must leave the global random state and flags as they were."""
    stir()
    before = global_state()
    result = guarded(label, call)
    changed = changed_since(before)
    expect(not changed, f"{label} changed {', '.join(changed)}")
    return result


def overwritten(arrays: Mapping[str, Any]) -> None:
    """Fill the arrays that a caller holds with ones; the component must not be affected."""
    for array in _arrays(arrays).values():
        if array.flags.writeable:
            array.fill(1)
