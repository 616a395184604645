"""A component behind the boundary: copies in, checked arrays out, exceptions as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attest.boundary.arrays import aligned, array_of, arrays_of, fresh, guarded, kind_of, quiet, reading
from attest.boundary.wiring import wiring_fault
from attest.contract import Array, Arrays, Config, Gradients
from attest.outcomes import NotClaimed, NotOffered, Violation, Wiring
from attest.sealed.outside import Remote

if TYPE_CHECKING:
    from attest.boundary.implementation import JudgedImplementation


STEPS = frozenset({"start", "step", "reorder", "rewind"})
LEFT_OUT = {  # what takes the question away
    "start": '; declare only = {"cache": (False,)} where there is no cache',
    "reorder": '; declare only = {"reorder": (False,)} where rows of a cache cannot be exchanged',
}


class JudgedComponent:
    """A component behind the boundary. Every call gets copies; every result is checked and copied."""

    def __init__(self, operation: str, component: Any, config: Config, impl: JudgedImplementation) -> None:
        self.operation = operation
        self.component = component
        self.config = config
        self.impl = impl

    @property
    def widening(self) -> float:
        """How far the implementation widens the bounds of this operation; at least 1."""
        return self.impl.factor(self.operation)

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        """The named outputs as copies."""
        return self.method("__call__", **inputs)

    def method(self, name: str, **inputs: Any) -> dict[str, Array]:
        """Call a method that takes keyword arrays and returns a mapping."""
        function = self._method(name) if name != "__call__" else self.component
        label = self.operation if name == "__call__" else f"{self.operation}.{name}"
        return arrays_of(guarded(label, lambda: function(**fresh(inputs))), label)

    def accepted(self, **inputs: Any) -> dict[str, Array] | None:
        """What a call gives, None where it is refused by an exception."""
        try:
            with quiet():
                result = self.component(**fresh(inputs))
        except Exception:
            return None
        return arrays_of(result, self.operation)

    def as_given(self, **inputs: Any) -> dict[str, Array]:
        """Call with the very arrays given, whatever their strides."""
        return arrays_of(guarded(self.operation, lambda: self.component(**inputs)), self.operation)

    def start(self, prompt: Array | int) -> Any:
        """The state before anything is written, as opaque as it came: of a prompt, or of empty rows."""
        start = self._method("start")
        given = aligned(prompt) if isinstance(prompt, np.ndarray) else prompt
        return guarded(self._label("start"), lambda: start(given))

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        """Logits of the new tokens, and the state that includes them."""
        step, label = self._method("step"), self._label("step")
        result = guarded(label, lambda: step(state, aligned(tokens)))

        def pair() -> tuple[Any, Any]:
            if not isinstance(result, tuple) or len(result) != 2:
                raise Violation(f"{label} returned {kind_of(result)}; return a pair of logits and state")
            return result[0], result[1]

        logits, after = reading(label, pair)
        return array_of(logits, label), after

    def reorder(self, state: Any, rows: Array) -> Any:
        """The state with these rows of the old one."""
        reorder = self._method("reorder")
        return guarded(self._label("reorder"), lambda: reorder(state, aligned(rows)))

    @property
    def reorders(self) -> bool:
        """Whether states are asked for other rows: not where only = {"reorder": (False,)} takes that away."""
        if "reorder" not in self.impl.claims.features:
            return False
        self._method("reorder")
        return True

    def rewind(self, state: Any, count: int) -> Any:
        """The state without its last tokens; NotOffered where the model cannot go back."""
        rewind = self._method("rewind")
        return guarded(self._label("rewind"), lambda: rewind(state, count))

    def parameters(self) -> dict[str, Array]:
        """Canonical parameters; empty for a component that has no such method."""
        label = self._label("parameters")
        if not reading(self.operation, lambda: hasattr(self.component, "parameters")):
            return {}
        return arrays_of(guarded(label, lambda: self.component.parameters()), label)

    def load(self, parameters: Arrays) -> None:
        """Inject weights."""
        if not parameters:
            return
        load = self._method("load")
        try:
            guarded(self._label("load"), lambda: load(fresh(parameters)))
        except Violation as violation:
            fault = wiring_fault(self.operation, parameters, self.parameters())
            raise (Wiring(fault, raised=violation.raised) if fault else violation) from None

    def load_as_given(self, parameters: Arrays) -> None:
        """Inject these very arrays, whatever their strides."""
        load = self._method("load")
        guarded(self._label("load"), lambda: load(parameters))

    def buffers(self) -> dict[str, Array]:
        """Arrays that are not learned."""
        buffers = self._method("buffers")
        return arrays_of(guarded(self._label("buffers"), buffers), self._label("buffers"))

    def train(self, seed: int) -> None:
        """Switch randomness on."""
        train = self._method("train")
        guarded(self._label("train"), lambda: train(seed))

    def eval(self) -> None:
        """Switch randomness off."""
        if isinstance(self.component, Remote) and "eval" in self.component.methods:
            self.component.channel.later(self.component, "eval")  # every example begins with it
        elif reading(self.operation, lambda: hasattr(self.component, "eval")):
            guarded(self._label("eval"), lambda: self.component.eval())

    def gradients(self, inputs: Mapping[str, Any], cotangents: Arrays) -> Gradients:
        """Gradients by input and parameter name."""
        gradients = self._method("gradients")
        label = self._label("gradients")
        result = guarded(label, lambda: gradients(fresh(inputs), fresh(cotangents)))

        def parts() -> list[Any]:
            if not (hasattr(result, "inputs") and hasattr(result, "parameters")):
                raise Violation(
                    f"{label} gave {kind_of(result)}; return an object with inputs and parameters"
                )
            return [result.inputs, result.parameters]

        return Gradients(*(arrays_of(part, label) for part in reading(label, parts)))

    def add_gradients(self, inputs: Mapping[str, Any], cotangents: Arrays) -> None:
        """One more backward pass on top of what the component holds."""
        add = self._method("add_gradients")
        guarded(self._label("add_gradients"), lambda: add(fresh(inputs), fresh(cotangents)))

    def held_gradients(self) -> dict[str, Array]:
        """What the component holds."""
        label = self._label("held_gradients")
        return arrays_of(guarded(label, self._method("held_gradients")), label)

    def zero_gradients(self) -> None:
        """Let the component forget what it holds."""
        guarded(self._label("zero_gradients"), self._method("zero_gradients"))

    def _label(self, method: str) -> str:
        return f"{self.operation}.{method}"

    def _method(self, name: str) -> Callable[..., Any]:
        method = reading(self.operation, lambda: getattr(self.component, name, None))
        if not callable(method):
            # Whoever declares only = {"cache": (False,)} is not asked for steps.
            missing = NotClaimed if name in STEPS and "cache" not in self.impl.claims.features else NotOffered
            raise missing(f"{self.operation} has no {name}(){LEFT_OUT.get(name, '')}")
        function: Callable[..., Any] = method
        return function
