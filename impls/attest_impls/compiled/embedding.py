"""The lookup of rows with a gradient that is the same to the bit in every run, on a GPU too.

Inductor writes the gradient of a lookup as a sum by atomic additions, whose order is another in every run.
Torch's own kernels sort the ids first. Here they are an operator of their own, which inductor does not open.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attest_impls.eager.model import InputEmbedding, TokenEmbedding
from attest_impls.eager.positions import LearnedPositions, RelativeBias, relative_buckets

torch.library.define("attest::rows_summed", "(Tensor given, Tensor ids, SymInt rows, int padding) -> Tensor")


@torch.library.register_fake("attest::rows_summed")
def _shape(given: Tensor, ids: Tensor, rows: int, padding: int) -> Tensor:
    return given.new_empty(rows, given.shape[-1])


@torch.library.impl("attest::rows_summed", "CompositeExplicitAutograd")
def _rows_summed(given: Tensor, ids: Tensor, rows: int, padding: int) -> Tensor:
    """(V, D): for each id the sum of what was given to it (..., D); zeros for padding."""
    made: Tensor = torch.ops.aten.embedding_dense_backward(given, ids, rows, padding, False)
    return made


class Lookup(torch.autograd.Function):
    """table[ids]. An id that is padding gives its row no gradient; -1 where none is."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, padding: int) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.rows, ctx.padding = table.shape[0], padding
        return table[ids]

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, None, None]:
        (ids,) = ctx.saved_tensors
        return torch.ops.attest.rows_summed(given, ids, ctx.rows, ctx.padding), None, None


def looked_up(table: Tensor, ids: Tensor, padding: int | None) -> Tensor:
    """Rows (..., D) of a table (V, D)."""
    made: Tensor = Lookup.apply(table, ids, -1 if padding is None else padding)
    return made


class SteadyTokens(TokenEmbedding):
    """eager's tables with this gradient."""

    def forward(self, ids: Tensor) -> Tensor:
        return looked_up(self.weight, ids, self.padding_idx)


class SteadyInput(InputEmbedding, SteadyTokens):
    """Its rows come from SteadyTokens, which is next in line."""


class SteadyPositions(LearnedPositions):
    def at(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + looked_up(self.weight, positions, None)


class SteadyBias(RelativeBias):
    def forward(self, positions: Tensor, key_positions: Tensor, causal: bool = False) -> Tensor:
        offsets = key_positions[:, None, :] - positions[:, :, None]  # (B, T, S)
        buckets = relative_buckets(offsets, self.buckets, self.distance, causal)
        return looked_up(self.weight, buckets, None).permute(0, 3, 1, 2)  # (B, H, T, S)


STEADY: dict[type[nn.Module], type[nn.Module]] = {
    TokenEmbedding: SteadyTokens,
    InputEmbedding: SteadyInput,
    LearnedPositions: SteadyPositions,
    RelativeBias: SteadyBias,
}


def steady(module: nn.Module) -> nn.Module:
    """A table of eager's with this gradient and the same parameters; another module as it is."""
    kind = STEADY.get(type(module))
    if kind is None:
        return module
    made: nn.Module = kind.__new__(kind)
    made.__dict__.update(module.__dict__)
    return made
