"""Defects that make arguments fit, or read them in the order of their memory.

Shapes: x (B, T, D), ids (B, T), table (V, D).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.tape import Array

Inputs = Mapping[str, Any]


@defect("M3.11")
class ids_read_in_their_own_order(ReferenceComponent):
    """Ids are read in the order of their memory, whatever their strides say."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        return {n: x.ravel(order="K").reshape(x.shape) if n == "ids" else x for n, x in given.items()}


@defect("M3.11")
class table_read_in_its_own_order(ReferenceComponent):
    """Parameters are loaded in the order of their memory, whatever their strides say."""

    def load(self, parameters: Arrays) -> None:
        super().load({n: np.ravel(x, order="K").reshape(np.shape(x)) for n, x in parameters.items()})


@defect("M3.11")
class read_only_parameters_refused(ReferenceComponent):
    """Parameters that cannot be written are not loaded."""

    def load(self, parameters: Arrays) -> None:
        for name, x in parameters.items():
            if not x.flags.writeable:
                raise ValueError(f"{name} is read-only")
        super().load(parameters)


@defect("M3.12", "M3.3a")
class last_ids_counted_from_the_end(ReferenceComponent):
    """Negative ids are taken from the end of the table."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        if "ids" in inputs:
            ids = np.asarray(inputs["ids"])
            inputs = {**inputs, "ids": np.where(ids < 0, ids + self.config.source_vocab, ids)}
        return super().accept(inputs)


@defect("M3.12")
class one_feature_takes_every_position(ReferenceComponent):
    """An input of one feature is repeated to the width of the model."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        x = inputs.get("x")
        if x is not None and np.ndim(x) == 3 and x.shape[-1] == 1:
            inputs = {**inputs, "x": np.repeat(x, self.config.d_model, -1)}
        return super().accept(inputs)


@defect("M3.12a")
class positions_by_the_second_axis(ReferenceComponent):
    """An input with one more axis gets the positions of its second axis, not those of its last but one."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        if self.operation != "positional_encoding" or np.ndim(inputs["x"]) != 4:
            return super().__call__(**inputs)
        x = inputs["x"]
        added = super().__call__(x=x[:, :, 0])["output"] - x[:, :, 0]
        return {"output": (x + added[:, :, None]).astype(self.dtype)}
