"""Defects of learned positions. Shapes: positions (B, T), table (max_len, D)."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.positions import Learned
from attest.reference.tape import Array, Var, detach


@defect("M7.1")
class learned_positions_from_one(Learned):
    """Position p gets row p + 1, as where the first row is kept for padding."""

    def rows(self, table: Var, positions: Array) -> Var:
        return super().rows(table, (positions + 1) % self.config.max_len)


@defect("M7.1")
class learned_shared_row(Learned):
    """Every position gets the first row."""

    def rows(self, table: Var, positions: Array) -> Var:
        return super().rows(table, np.zeros_like(positions))


@defect("M7.1")
class learned_row_of_the_batch(Learned):
    """The row is chosen by the place in the batch."""

    def rows(self, table: Var, positions: Array) -> Var:
        rows: Array = np.arange(len(positions))[:, None] % self.config.max_len
        return super().rows(table, np.broadcast_to(rows, positions.shape))


@defect("M7.1")
class learned_gradient_of_one_row(Learned):
    """The table learns from the first row of the batch alone."""

    def rows(self, table: Var, positions: Array) -> Var:
        first, others = super().rows(table, positions[:1]), super().rows(detach(table), positions[1:])
        return ops.concat([first, others], axis=0)


@defect("M7.1")
class learned_table_wraps(ReferenceComponent):
    """Beyond the table its rows begin again."""

    def check_length(self, name: str, length: int) -> None:
        if self.config.positions != "learned":
            super().check_length(name, length)

    def accept(self, inputs: Any) -> dict[str, Any]:
        given = super().accept(inputs)
        if self.operation == "positional_encoding" and self.config.positions == "learned":
            given["x"] = given["x"][:, : self.config.max_len]
        return given
