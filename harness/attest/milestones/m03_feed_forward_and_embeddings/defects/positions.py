"""Defects of the table of positions. Shapes: table (max_len, D), x (B, T, D)."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.positions import Sinusoids
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var


@defect("M3.4")
class sin_cos_swapped(Sinusoids):
    """Cosine on even features, sine on odd ones."""

    def table(self, length: int, width: int) -> Array:
        angle = self.angles(length, width)
        return np.where(np.arange(width) % 2 == 0, np.cos(angle), np.sin(angle))


@defect("M3.4")
class halves_concatenated(Sinusoids):
    """All sines first, then all cosines."""

    def table(self, length: int, width: int) -> Array:
        table = super().table(length, width)
        return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)


@defect("M3.4")
class wrong_base(Sinusoids):
    """Wavelengths grow with base 1000."""

    def base(self) -> float:
        return 1000.0


@defect("M3.4")
class exponent_i_not_2i(Sinusoids):
    """The exponent counts pairs, not features: i / D in place of 2i / D."""

    def exponents(self, width: int) -> Array:
        return super().exponents(width) / 2


@defect("M3.4")
class pair_with_two_frequencies(Sinusoids):
    """The sine and the cosine of a pair have different exponents."""

    def exponents(self, width: int) -> Array:
        exponents: Array = np.arange(width) / width
        return exponents


@defect("M3.4")
class exponent_to_the_last_feature(Sinusoids):
    """Divided by D - 2, so that the last pair reaches the base itself."""

    def exponents(self, width: int) -> Array:
        return super().exponents(width) * width / max(width - 2, 1)


@defect("M3.4")
class positions_from_one(Sinusoids):
    """The first position is 1."""

    def angles(self, length: int, width: int) -> Array:
        return super().angles(length + 1, width)[1:]


@defect("M3.4")
class odd_width_crash(Sinusoids):
    """As many cosines as sines, which an odd width has no room for."""

    def table(self, length: int, width: int) -> Array:
        table = np.zeros((length, width))
        angle = self.angles(length, width)[:, 0::2]
        table[:, 0::2] = np.sin(angle)
        table[:, 1::2] = np.cos(angle)
        return table


@defect("M3.4")
class odd_width_ends_in_zero(Sinusoids):
    """The last feature of an odd width is left empty."""

    def table(self, length: int, width: int) -> Array:
        table = super().table(length, width)
        if width % 2:
            table[:, -1] = 0.0
        return table


@defect("M3.4")
class angles_in_half_precision(Sinusoids):
    """Positions beyond 256 share their angles."""

    def angles(self, length: int, width: int) -> Array:
        angle = super().angles(length, width)
        fraction, exponent = np.frexp(angle)
        rounded: Array = np.ldexp(np.round(fraction * 256) / 256, exponent)
        return rounded


@defect("M3.4")
class positions_multiplied(Sinusoids):
    """The input is multiplied by its positions."""

    def add(self, x: Var, where: Where) -> Var:
        return ops.scale(x, self.rows(where.offset + x.shape[1])[where.offset :])


@defect("M3.4")
class positions_replace_the_input(Sinusoids):
    """Positions alone come out."""

    def add(self, x: Var, where: Where) -> Var:
        return super().add(ops.scale(x, 0.0), where)


@defect("M3.4", "M3.6")
class positions_counted_backwards(Sinusoids):
    """The last position is 0."""

    def add(self, x: Var, where: Where) -> Var:
        table = self.rows(where.offset + x.shape[1])[where.offset :]
        return ops.add(x, table[::-1])


@defect("M3.5")
class positions_trainable(ReferenceComponent):
    """The table is a parameter."""

    def parameters(self) -> dict[str, Array]:
        extra = self.buffers() if self.operation == "positional_encoding" else {}
        return {**super().parameters(), **extra}

    def load(self, parameters: Arrays) -> None:
        super().load({name: value for name, value in parameters.items() if name != "positions"})


@defect("M3.5")
class table_not_sliced(Sinusoids):
    """The whole table is added, whatever the length of the input."""

    def rows(self, length: int) -> Array:
        return self.buffer()


@defect("M3.5")
class silent_truncation(ReferenceComponent):
    """An input that is too long is cut."""

    def accept(self, inputs: Any) -> dict[str, Any]:
        limit = self.config.max_len
        if self.operation in ("positional_encoding", "input_embedding"):
            inputs = {name: x[:, :limit] for name, x in inputs.items()}
        return super().accept(inputs)


def read_rows(component: ReferenceComponent, rows: Array) -> None:
    """Let the component read these rows of the table, whatever length is asked for."""
    positions = component.parts.positions
    if isinstance(positions, Sinusoids):
        positions.rows = lambda length: positions.buffer()[rows]  # type: ignore[method-assign]


@defect("M3.5")
class one_row_broadcasts(ReferenceComponent):
    """A table of one row fits every length."""

    def check_length(self, name: str, length: int) -> None:
        if self.config.max_len > 1:
            super().check_length(name, length)
        else:
            read_rows(self, np.zeros(1, int))


@defect("M3.5")
class positions_wrap_around(ReferenceComponent):
    """Beyond max_len the table starts again."""

    def check_length(self, name: str, length: int) -> None:
        read_rows(self, np.arange(length) % self.config.max_len)


@defect("M3.5")
class last_position_refused(ReferenceComponent):
    """An input of max_len positions is taken to be too long."""

    def check_length(self, name: str, length: int) -> None:
        super().check_length(name, length + 1)


@defect("M3.5", "M3.6")
class positions_on_batch_axis(Sinusoids):
    """Every position of a sentence gets the encoding of its row in the batch."""

    def add(self, x: Var, where: Where) -> Var:
        table = self.table(max(self.config.max_len, x.shape[0]), self.config.d_model)
        return ops.add(x, table[: x.shape[0], None])


@defect("M3.5")
class positions_stretched_to_the_length(Sinusoids):
    """Positions run from 0 to max_len in every input."""

    def add(self, x: Var, where: Where) -> Var:
        length = x.shape[1]
        rows = np.linspace(0, self.config.max_len - 1, length).round().astype(int)
        return ops.add(x, self.buffer()[rows])


@defect("M3.5")
class positions_of_the_seed(Sinusoids):
    """The table starts from a random phase."""

    def angles(self, length: int, width: int) -> Array:
        return super().angles(length, width) + 1e-3 * (self.config.seed % 7)


@defect("M3.5")
class table_drifts(ReferenceComponent):
    """Training mode changes the table a little."""

    def train(self, seed: int) -> None:
        super().train(seed)
        positions = self.parts.positions
        if "max_len" in self.reads and isinstance(positions, Sinusoids):
            positions._table = positions.buffer() * (1 + 1e-5)


@defect("M3.10a")
class positions_added_in_place(ReferenceComponent):
    """The caller's array is changed."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if self.operation == "positional_encoding":
            inputs["x"][...] = found["output"]
        return found


@defect("M3.10a")
class output_is_the_input(ReferenceComponent):
    """The sum is written into the caller's array and that array returned."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if self.operation == "positional_encoding":
            inputs["x"] += found["output"] - inputs["x"]
            return {"output": inputs["x"]}
        return found


@defect("M3.10a")
class result_kept_and_given_again(ReferenceComponent):
    """The result of the last call is kept; writing into it changes the next answer."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        key = {name: np.array(x) for name, x in inputs.items()}
        last = getattr(self, "last", None)
        if last and last[2] == self.seed and all(np.array_equal(key[n], last[0].get(n)) for n in key):
            kept: dict[str, Array] = last[1]
            return kept
        found = super().__call__(**inputs)
        self.last = (key, found, self.seed)
        return found
