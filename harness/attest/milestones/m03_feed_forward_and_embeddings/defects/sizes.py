"""Defects of the feed-forward network, tokens and positions that begin at a size.

Shapes: x (B, T, D), inner features (B, T, F), ids (B, T), table of positions (max_len, D).
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.embedding import Embedding
from attest.reference.parts.feed_forward import FeedForward
from attest.reference.parts.positions import Sinusoids
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@defect("M3.1")
class chunk_tail_lost_256(FeedForward):
    """Inner features are worked through in chunks of 256, and a last chunk that is not full is forgotten."""

    def features(self, x: Var, p: Scope) -> Var:
        inner = super().features(x, p)
        width = inner.shape[-1]
        kept = np.arange(width) < (width // 256 * 256 or width)
        return ops.scale(inner, kept.astype(np.float64))


@defect("M3.3", "M3.6")
class ids_as_uint8(Embedding):
    """Ids are kept in eight bits."""

    def embed(self, ids: Array, table: Var) -> Var:
        return super().embed(ids.astype(np.uint8).astype(np.int64), table)


@defect("M3.3", "M3.6")
class ids_as_int8(Embedding):
    """Ids are kept in eight bits with a sign, and negative ones count from the end."""

    def embed(self, ids: Array, table: Var) -> Var:
        return super().embed(ids.astype(np.int8).astype(np.int64) % table.shape[0], table)


@defect("M3.4", "M3.6")
class positions_wrap_at_512(Sinusoids):
    """Position 512 is position 0 again."""

    def angles(self, length: int, width: int) -> Array:
        return super().angles(length, width)[np.arange(length) % 512]


@defect("M3.4", "M3.6")
class positions_wrap_at_1000(Sinusoids):
    """Position 1000 is position 0 again."""

    def angles(self, length: int, width: int) -> Array:
        return super().angles(length, width)[np.arange(length) % 1000]
