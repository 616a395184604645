"""Where a token stands in its sequence: sinusoids (section 3.5 of the paper), learned rows, or nothing.

A kind of positions acts at one of three places: it adds to the embeddings, turns queries and keys, or puts a
bias on the scores. `attest.reference.parts.relative_positions` has those of the last two kinds.

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


class Positions(Part):
    """Positions that are nowhere: a permuted sequence gives the permuted result."""

    def add(self, x: Var, where: Where) -> Var:
        """Embeddings (B, T, D) with what this kind adds to them."""
        return x

    def rotate(self, x: Var, where: Where) -> Var:
        """Queries or keys (..., T, d) as attention compares them; `where` tells where they stand."""
        return x

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        """(H, B or 1, T, S) to add to the scores, or None."""
        return None

    def buffers(self) -> dict[str, Array]:
        """Tables that belong to the model and are not learned."""
        return {}


class Sinusoids(Positions):
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

    def buffers(self) -> dict[str, Array]:
        return {"positions": self.buffer()}

    def add(self, x: Var, where: Where) -> Var:
        """x plus the positions from `where.offset` on, or those that are given."""
        if where.positions is not None:
            return self.add_at(x, where.positions)
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

    def add_at(self, x: Var, positions: Array) -> Var:
        """x plus the rows of the table at positions (B, T)."""
        length = int(positions.max(initial=0)) + 1
        table = self.rows(length)
        variance = self.variance(table, 0, x.eps)
        rows = None if variance is None else variance[positions]
        return ops.add(x, Var(table[positions], rows, x.eps))


class Learned(Positions):
    """A row of its own for each of max_len positions, added to the embeddings."""

    def add(self, x: Var, where: Where) -> Var:
        assert where.table is not None, "a model with learned positions hands their table down"
        positions = np.broadcast_to(self.checked(where.queries(x.shape[1])), x.shape[:2])
        return ops.add(x, self.rows(where.table, positions))

    def rows(self, table: Var, positions: Array) -> Var:
        """(B, T, D)."""
        return ops.take(table, positions)

    def checked(self, positions: Array) -> Array:
        length = int(positions.max(initial=0)) + 1
        if length > self.config.max_len:
            raise ValueError(
                f"length={length} exceeds max_len={self.config.max_len}; shorten the input or raise max_len"
            )
        return positions


@formula("positional_encoding")
def _positional_encoding(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.positions.add(inputs["x"], Where(table=p.get("weight")))}
