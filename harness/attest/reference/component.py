"""The contract's Component on top of the parts: numpy in, numpy out, gradients from the tape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Arrays, Config, Gradients, float_dtype, operation_of
from attest.contract.parameters import Shapes, shapes
from attest.reference.assembly import Parts
from attest.reference.initial import initial_parameters
from attest.reference.operations import run
from attest.reference.parts.part import Outputs
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, gradients, leaf
from attest.reference.validation import ConfigRules, InputRules


class ReferenceComponent(InputRules, ConfigRules):
    """One operation. It computes in float64 and rounds once, to the config's boundary dtype."""

    def __init__(self, parts: Parts, operation: str, config: Config) -> None:
        self.parts, self.operation, self.config = parts, operation, config
        self.record = operation_of(operation)
        self.reads = self.record.reads
        self.dtype = float_dtype(config.dtype)
        self.seed: int | tuple[int, ...] | None = None
        self.check_config()
        self._values: dict[str, Array] | None = None
        self._scope: Scope | None = None
        self._gradient_sum: dict[str, Array] | None = None

    @property
    def values(self) -> dict[str, Array]:
        """The parameters themselves, made on first use."""
        if self._values is None:
            self._values = self.initial()
        return self._values

    def initial(self) -> dict[str, Array]:
        return initial_parameters(self.operation, self.config, self.shapes())

    def shapes(self) -> Shapes:
        """Canonical names and shapes of what this component learns."""
        return shapes(self.operation, self.config)

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        given = self.accept(inputs)
        with np.errstate(all="ignore"):
            return self.release(self.outputs(self.operation, self.scope(), self.on_tape(given)))

    def accept(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs that were given, as arrays, once they have been checked."""
        given = {name: np.asarray(x) for name, x in inputs.items() if x is not None}
        self.check_inputs(given)
        return given

    def on_tape(self, given: Mapping[str, Any], gradient: bool = False) -> dict[str, Any]:
        floating = self.record.floating
        return {name: leaf(x, gradient=gradient) if name in floating else x for name, x in given.items()}

    def scope(self, gradient: bool = False) -> Scope:
        """The parameters in float64; kept until others are loaded when no gradient is asked."""
        if not gradient and self._scope is not None:
            return self._scope
        scope = Scope({name: leaf(value, gradient=gradient) for name, value in self.values.items()})
        if not gradient:
            self._scope = scope
        return scope

    def outputs(self, operation: str, p: Scope, inputs: Mapping[str, Any]) -> Outputs:
        """Run the formula, with fresh noise from the seed while training."""
        self.parts.noise = self.noise()
        try:
            return run(self.parts, operation, p, inputs)
        finally:
            self.parts.noise = None

    def noise(self) -> np.random.Generator | None:
        """The same draws for every call until the seed changes; None in evaluation."""
        return None if self.seed is None else np.random.default_rng(self.seed)

    def release(self, outputs: Mapping[str, Var]) -> dict[str, Array]:
        """Fresh arrays in the boundary's dtype."""
        return {name: np.array(var.value, dtype=self.dtype) for name, var in outputs.items()}

    def parameters(self) -> dict[str, Array]:
        return {name: value.copy() for name, value in self.values.items()}

    def load(self, parameters: Arrays) -> None:
        missing = self.shapes().keys() - set(parameters)
        if missing:
            raise ValueError(f"parameters lack {min(missing)!r}; give every name that parameters() returns")
        self._scope = None
        self._values = {name: np.array(parameters[name], dtype=self.dtype) for name in self.shapes()}

    def buffers(self) -> dict[str, Array]:
        if "max_len" not in self.reads:
            return {}
        return {name: table.astype(self.dtype) for name, table in self.parts.positions.buffers().items()}

    @property
    def training(self) -> bool:
        return self.seed is not None

    def train(self, seed: int) -> None:
        self.seed = seed

    def eval(self) -> None:
        self.seed = None

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Gradients:
        """Backwards along the tape from the outputs that have a cotangent."""
        given = self.accept(inputs)
        with np.errstate(all="ignore"):
            return self.backward(self.operation, given, cotangents)

    def add_gradients(self, inputs: Arrays, cotangents: Arrays) -> None:
        found = self.gradients(inputs, cotangents).parameters
        self._gradient_sum = {name: held + found[name] for name, held in self.held_gradients().items()}

    def held_gradients(self) -> dict[str, Array]:
        held = self._gradient_sum or {name: np.zeros_like(value) for name, value in self.values.items()}
        return {name: value.copy() for name, value in held.items()}

    def zero_gradients(self) -> None:
        self._gradient_sum = None

    def backward(self, operation: str, given: Mapping[str, Any], cotangents: Arrays) -> Gradients:
        taped, p = self.on_tape(given, gradient=True), self.scope(gradient=True)
        outputs = self.outputs(operation, p, taped)
        leaves = {name: x for name, x in taped.items() if isinstance(x, Var)}
        found = gradients(
            [(outputs[name], cotangents[name]) for name in cotangents], [*leaves.values(), *p.values.values()]
        )
        rounded = [np.array(g, dtype=self.dtype) for g in found]
        return Gradients(
            inputs=dict(zip(leaves, rounded)), parameters=dict(zip(p.values, rounded[len(leaves) :]))
        )
