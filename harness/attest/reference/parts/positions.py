"""Where a token stands in its sequence: the sinusoids of the paper's section 3.5.

Shapes: B batch, H heads, T queries, S keys, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Sinusoids(Part):
    """A fixed table that is added to the embeddings; attention itself knows nothing of positions."""

    def table(self, length: int, width: int) -> Array:
        """(length, width): sine in even columns, cosine in odd ones, from position 0."""
        angle = self.angles(length, width)
        return np.where(np.arange(width) % 2 == 0, np.sin(angle), np.cos(angle))

    def angles(self, length: int, width: int) -> Array:
        """position / 10000^(2i / D)."""
        positions: Array = np.arange(length, dtype=np.float64)[:, None]
        return positions / self.base() ** self.exponents(width)

    def base(self) -> float:
        return 10000.0

    def exponents(self, width: int) -> Array:
        """2i / D for the columns 2i and 2i + 1."""
        columns: Array = np.arange(width)
        exponents: Array = (columns - columns % 2) / width
        return exponents

    def rows(self, length: int) -> Array:
        """The first `length` rows of the table of max_len positions."""
        if length > self.config.max_len:
            raise ValueError(
                f"length={length} exceeds max_len={self.config.max_len}; shorten the input or raise max_len"
            )
        return self.buffer()[:length]

    def buffer(self) -> Array:
        """The table the model holds, made once."""
        if not hasattr(self, "_table"):
            self._table = self.table(self.config.max_len, self.config.d_model)
        return self._table

    def add(self, x: Var, where: Where) -> Var:
        """x plus the positions from `where.offset` on."""
        table = self.rows(where.offset + x.shape[1])[where.offset :]
        return ops.add(x, Var(table, self.variance(table, where.offset, x.eps), x.eps))

    def variance(self, table: Array, offset: int, eps: float) -> Array | None:
        """Of a table made in float32 or better: the angle is rounded too, and grows with the position."""
        if not eps:
            return None
        angle = self.angles(offset + len(table), table.shape[1])[offset:]
        # The sine is rounded once (eps). Its argument is a product of a position and a rounded frequency: two
        # roundings, relative to the angle, and a sine moves by at most as much as its argument. Tables are
        # made in float32 or float64 even where the model computes in less, hence the minimum.
        error: Array = eps + 2 * min(eps, 2.0**-24) * angle
        return error * error

    def rotate(self, x: Var, where: Where) -> Var:
        """Queries or keys (..., T, d) as attention compares them: sinusoids leave them as they are."""
        return x

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        """(H, T, S) to add to the scores: sinusoids have none."""
        return None


@formula("positional_encoding")
def _positional_encoding(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.positions.add(inputs["x"], Where())}
