"""From ids to vectors: learned token rows, scaled, plus sinusoidal positions (sections 3.4 and 3.5).

Shapes: B batch, T positions, D width, V vocabulary.
"""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Array, Config

from .layers import Cache, Dropout, DType, Layer, Random


def position_table(length: int, width: int) -> Array:
    """(length, D): sin(p / 10000^(2i/D)) in column 2i, cos of the same angle in column 2i + 1.

    Positions count from 0. An odd width ends in a sine without its cosine.
    """
    even = np.arange(0, width, 2)
    angles = np.arange(length)[:, None] / 10000.0 ** (even / width)  # (length, ceil(D / 2))
    table = np.empty((length, width))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : width // 2])
    return table


class Embedding(Layer):
    """A row per id. The row of the padding id starts at zero and gets no gradient from being looked up."""

    def __init__(self, vocab: int, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        self.pad_id = config.pad_id
        self.params["weight"] = rng.normal(0, config.d_model**-0.5, (vocab, config.d_model)).astype(dtype)
        if self.pad_id is not None:
            self.params["weight"][self.pad_id] = 0

    def look_up(self, ids: Array) -> tuple[Array, Cache]:
        """weight (V, D) and ids (B, T) to rows (B, T, D)."""
        return self.params["weight"][ids], ids

    def look_up_backward(self, dy: Array, cache: Cache) -> None:
        """Row v of the table moves the output wherever the id is v: its gradient is the sum of dy there.

        An id that occurs twice adds twice: `grads[ids] += dy` would keep one of them.
        """
        real = cache != self.pad_id  # (B, T)
        np.add.at(self.grads["weight"], cache[real], dy[real])


class InputEmbedding(Embedding):
    """dropout(token * sqrt(D) + position); the factor brings rows of norm about 1 to the sinusoids' size."""

    def __init__(self, vocab: int, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__(vocab, config, dtype, rng)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.dropout = Dropout(config.dropout)
        self.positions = position_table(config.max_len, config.d_model).astype(dtype)

    def forward(self, ids: Array, rng: Random | None, start: int = 0) -> tuple[Array, Cache]:
        """`start` is the position of the first id: generation looks up one id after the other."""
        tokens, looked_up = self.look_up(ids)  # (B, T, D)
        placed = tokens * self.scale  # (B, T, D)
        placed += self.positions[start : start + ids.shape[1]]
        x, dropped = self.dropout.forward(placed, rng)
        return x, (looked_up, dropped)

    def backward(self, dx: Array, cache: Cache) -> None:
        """Positions are fixed and ids are no numbers to move: the gradient ends in the table's rows."""
        looked_up, dropped = cache
        dtokens = self.dropout.backward(dx, dropped) * self.scale  # (B, T, D)
        self.look_up_backward(dtokens, looked_up)
