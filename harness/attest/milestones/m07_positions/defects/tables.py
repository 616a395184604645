"""Defects of where tables of positions are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract import Arrays, Gradients
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.tape import Array


@defect("M7.15")
class rotary_table_is_a_parameter(ReferenceComponent):
    """The table of angles is among the parameters, so that an optimiser moves it."""

    def parameters(self) -> dict[str, Array]:
        found = super().parameters()
        if self.config.positions == "rotary" and "positions" in self.reads:
            found["rotary.table"] = np.zeros((self.config.max_len, self.config.d_head), self.dtype)
        return found


@defect("M7.15")
class relative_table_is_a_buffer(ReferenceComponent):
    """The table of relative positions is kept where no optimiser finds it."""

    def parameters(self) -> dict[str, Array]:
        return {name: x for name, x in super().parameters().items() if not name.endswith("relative.weight")}


@defect("M7.15")
class relative_table_frozen(ReferenceComponent):
    """The table of relative positions is a parameter without a gradient."""

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Gradients:
        found = super().gradients(inputs, cotangents)
        frozen: dict[str, Any] = {n: np.zeros_like(x) if n.endswith("relative.weight") else x
                                  for n, x in found.parameters.items()}  # fmt: skip
        return Gradients(inputs=found.inputs, parameters=frozen)
