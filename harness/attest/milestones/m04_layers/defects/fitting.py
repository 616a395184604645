"""Defects of layers and stacks that make arguments fit, or read them in the order of their memory.

Shapes: x (B, T, D), memory (B, S, D), masks True where a query may attend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent

Inputs = Mapping[str, Any]


@defect("M4.14")
class masks_read_in_their_own_order(ReferenceComponent):
    """Masks are read in the order of their memory, whatever their strides say."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        masks = {n: x.ravel(order="K").reshape(x.shape) for n, x in given.items() if n.endswith("mask")}
        return {**given, **masks}


@defect("M4.14")
class memory_read_in_its_own_order(ReferenceComponent):
    """The memory is read in the order of its memory, whatever its strides say."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        return {n: x.ravel(order="K").reshape(x.shape) if n == "memory" else x for n, x in given.items()}


@defect("M4.15")
class rows_of_the_memory_left_over(ReferenceComponent):
    """A memory with more rows than the input is cut."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        if "memory" in inputs:
            inputs = {**inputs, "memory": inputs["memory"][: len(inputs["x"])]}
        return super().accept(inputs)


@defect("M4.15")
class one_feature_is_normed_alone(ReferenceComponent):
    """A norm of one feature gives the bias at the width of the model."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        x = inputs.get("x")
        if self.operation == "layer_norm" and x is not None and np.ndim(x) == 3 and x.shape[-1] == 1:
            inputs = {**inputs, "x": np.repeat(x, self.config.d_model, -1)}
        return super().accept(inputs)


@defect("M4.15a")
class sentence_without_a_batch_axis_misread(ReferenceComponent):
    """An input without a batch axis is read as a batch of sentences of one word."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        if "x" in inputs and np.ndim(inputs["x"]) == 2 and "memory" not in inputs:
            inputs = {"x": inputs["x"][:, None]}
        return super().accept(inputs)
