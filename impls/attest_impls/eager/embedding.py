"""Tokens and positions (the paper's sections 3.4 and 3.5).

Shapes: B batch, T length, D width (d_model), V vocabulary.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from attest.contract import Config

from .arguments import EMBEDDING, check_config, check_id_fits, check_ids, check_length, check_width


class TokenEmbedding(nn.Embedding):
    """A learned row per token. The padding row is zero and gets no gradient from being looked up."""

    def __init__(self, config: Config, vocabulary: str = "source_vocab") -> None:
        check_config(config, "d_model", "pad_id", vocabulary)
        size = getattr(config, vocabulary)
        check_id_fits("pad_id", config.pad_id, vocabulary, size)
        super().__init__(size, config.d_model, padding_idx=config.pad_id)

    def reset_parameters(self) -> None:
        """Rows of norm about one, so that sqrt(d_model) times a row has unit features."""
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        with torch.no_grad():
            self.weight[self.padding_idx].zero_()

    def forward(self, ids: Tensor) -> Tensor:
        check_ids("ids", ids, self.num_embeddings)
        return super().forward(ids)  # (B, T, D)


def sinusoids(length: int, width: int, dtype: torch.dtype) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(same). An odd width ends in an unpaired sine.

    Worked out in float64: in half precision positions 256 and 257 have the same angles.
    """
    pairs = np.arange(width) // 2
    angles = np.arange(length)[:, None] / 10000.0 ** (2 * pairs / width)
    table = np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))
    return torch.tensor(table, dtype=dtype)


class PositionalEncoding(nn.Module):
    """Adds the row of each position. The table is a buffer: nothing here is learned."""

    table: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        check_config(config, "d_model", "max_len")
        self.max_len, self.d_model = config.max_len, config.d_model
        table = sinusoids(config.max_len, config.d_model, getattr(torch, config.dtype))
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        check_width("x", x, self.d_model)
        check_length("x", x.shape[1], self.max_len)
        return self.add(x, 0)

    def add(self, x: Tensor, start: int) -> Tensor:
        return x + self.table[start : start + x.shape[1]]


class InputEmbedding(TokenEmbedding):
    """dropout(tokens * sqrt(d_model) + positions).

    The factor lifts rows of norm one to the scale of the sinusoids (norm sqrt(D / 2)): without it the
    positions drown the tokens. `scale_embeddings=False` leaves it out.
    """

    def __init__(self, config: Config, vocabulary: str = "source_vocab") -> None:
        check_config(config, *EMBEDDING)
        super().__init__(config, vocabulary)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.positions = PositionalEncoding(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        check_ids("ids", ids, self.num_embeddings, self.positions.max_len)
        return self.at(ids, 0)

    def at(self, ids: Tensor, start: int) -> Tensor:
        """The same for ids that stand at positions from `start`, and are known to be good."""
        tokens = nn.functional.embedding(ids, self.weight, self.padding_idx)
        return self.dropout(self.positions.add(tokens * self.scale, start))  # (B, T, D)
