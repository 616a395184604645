"""From ids to vectors: learned token rows, scaled, plus sinusoidal positions (sections 3.4 and 3.5).

Shapes: B batch, T positions, D width, V vocabulary.
"""

import math

import numpy as np

from .layers import Layer, dropout_backward, dropout_forward


def position_table(length, width):
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

    def __init__(self, vocab, config, dtype, rng):
        super().__init__()
        self.pad_id = config.pad_id
        self.params["weight"] = rng.normal(0, config.d_model**-0.5, (vocab, config.d_model)).astype(dtype)
        self.params["weight"][self.pad_id] = 0

    def forward(self, ids):
        return self.params["weight"][ids], ids

    def backward(self, dy, ids):
        """An id that occurs twice adds twice: `grads[ids] += dy` would keep one of them."""
        real = ids != self.pad_id
        np.add.at(self.grads["weight"], ids[real], dy[real])


class InputEmbedding(Embedding):
    """dropout(token * sqrt(D) + position); the factor brings rows of norm about 1 to the sinusoids' size."""

    def __init__(self, vocab, config, dtype, rng):
        super().__init__(vocab, config, dtype, rng)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.rate = float(config.dropout)
        self.positions = position_table(config.max_len, config.d_model).astype(dtype)

    def forward(self, ids, rng):
        tokens, _ = super().forward(ids)  # (B, T, D)
        placed = tokens * self.scale + self.positions[: ids.shape[1]]
        x, factor = dropout_forward(placed, self.rate, rng)
        return x, (ids, factor)

    def backward(self, dx, cache):
        ids, factor = cache
        super().backward(dropout_backward(dx, factor) * self.scale, ids)
