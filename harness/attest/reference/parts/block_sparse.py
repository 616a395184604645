"""Attention between chosen blocks of queries and keys: https://arxiv.org/abs/1904.10509, section 4.

Shapes: B batch, H heads, T queries, S keys, b positions of a block, M and N blocks of queries and keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class BlockSparse(Part):
    """Dense attention under the mask that the blocks stand for."""

    def expanded(self, blocks: Array, T: int, S: int) -> Array:
        """(H or 1, T, S): each entry over its block; the last block of a length may be short."""
        rows, keys = np.arange(T) // self.config.block, np.arange(S) // self.config.block
        allowed: Array = np.asarray(blocks, bool)[:, rows[:, None], keys[None, :]]
        return allowed

    def allowed(self, blocks: Array, where: Where, T: int, S: int) -> Array:
        """The blocks, and the triangle where attention is causal: both must allow."""
        allowed = self.parts.masks.allowed(where.but(mask=self.expanded(blocks, T, S)), T, S)
        assert allowed is not None
        return allowed

    def __call__(self, q: Var, k: Var, v: Var, blocks: Array, where: Where) -> Var:
        allowed = self.allowed(blocks, where, q.shape[-2], k.shape[-2])
        return self.parts.attention(q, k, v, Where(allowed))["output"]


@formula("block_sparse_attention")
def _block_sparse_attention(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    q, k, v, blocks = (inputs[name] for name in ("q", "k", "v", "blocks"))
    return {"output": parts.block_sparse(q, k, v, np.asarray(blocks), Where.of(inputs))}
