"""Defects of what a layer leaves behind and of what it starts with.

Shapes: x (B, T, D), memory (B, S, D), masks True where a query may attend.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.tape import Array


@defect("M4.12")
class residual_added_in_place(ReferenceComponent):
    """The residual is written into the caller's x."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if "output" in seen and "x" in inputs:
            inputs["x"] += np.asarray(0.5, inputs["x"].dtype)
        return seen


@defect("M4.12")
class mask_inverted_in_place(ReferenceComponent):
    """The caller's mask is turned into its opposite, as some library wants it."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        for name in ("mask", "memory_mask"):
            if inputs.get(name) is not None:
                np.logical_not(inputs[name], out=inputs[name])
        return seen


@defect("M4.12")
class memory_normalised_in_place(ReferenceComponent):
    """The caller's memory is centred where it lies."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if "memory" in inputs:
            inputs["memory"] -= inputs["memory"].mean(-1, keepdims=True)
        return seen


@defect("M4.12")
class global_seed_in_training(ReferenceComponent):
    """train(seed) seeds numpy's global generator."""

    def train(self, seed: int) -> None:
        super().train(seed)
        np.random.seed(seed)


@defect("M4.12")
class counts_its_calls(ReferenceComponent):
    """Every call adds a little to the output, as a running average kept in eval does."""

    calls = 0

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        self.calls += 1
        return {name: value * (1 + 1e-3 * self.calls) for name, value in super().__call__(**inputs).items()}


class _OtherStart(ReferenceComponent):
    """A component whose initial parameters are changed name by name."""

    def initial(self) -> dict[str, Array]:
        return {name: self.start(name, value) for name, value in super().initial().items()}

    def start(self, name: str, value: Array) -> Array:
        raise NotImplementedError


@defect("M4.13")
class norm_starts_at_zero(_OtherStart):
    """Norm weights start at 0 and switch their layer off."""

    def start(self, name: str, value: Array) -> Array:
        return np.zeros_like(value) if "norm" in name else value


@defect("M4.13")
class queries_too_large(_OtherStart):
    """Query and key maps start with four times their spread and saturate the softmax."""

    def start(self, name: str, value: Array) -> Array:
        return 4 * value if name.endswith(("query.weight", "key.weight")) else value


@defect("M4.13")
class biases_start_random(_OtherStart):
    """Biases of linear maps start at random values."""

    def start(self, name: str, value: Array) -> Array:
        if value.ndim == 1 and "norm" not in name:
            return np.full_like(value, 0.05)
        return value


@defect("M4.13")
class weights_start_standard_normal(_OtherStart):
    """Matrices start with variance 1 whatever their size."""

    def start(self, name: str, value: Array) -> Array:
        return value / max(float(value.std()), 1e-12) if value.ndim == 2 else value
