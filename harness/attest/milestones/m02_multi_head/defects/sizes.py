"""Defects of multi-head attention that begin at a size or with a run of hidden keys.

Shapes: query (B, T, D), key_value (B, S, D), a mask (T, S) or (B or 1, T or 1, S).
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@defect("M2.8", "M2.2")
class first_key_unmasked_in_every_head(MultiHead):
    """Key padding lets the first key through in every head."""

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        allowed = super().allowed_for(mask, B, T, S)
        if allowed is None or allowed.shape[-2] != 1:
            return allowed
        return np.asarray(allowed.astype(bool) | (np.arange(S) == 0))


@defect("M2.2")
class keys_beyond_128_not_read(MultiHead):
    """Heads read the first 128 keys."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        S = k.shape[2]
        if S <= 128:
            return super().attend(query, k, v, p, where)
        mask = np.ones((1, S), bool) if where.mask is None else np.asarray(where.mask).astype(bool)
        shown = mask & (np.arange(S) < 128)
        blind = ~shown.any(-1, keepdims=True)
        return super().attend(query, k, v, p, where.but(mask=np.where(blind, mask, shown)))


@defect("M2.2")
class features_beyond_64_not_projected(MultiHead):
    """The output map reads 64 joined features where there are more."""

    def combine(self, concatenated: Var, p: Scope) -> Var:
        kept = np.arange(concatenated.shape[-1]) < 64
        return super().combine(ops.scale(concatenated, kept.astype(np.float64)), p)


@defect("M2.2")
class heads_beyond_eight_exchanged(MultiHead):
    """Of more than eight heads, those behind the eighth are split and merged in reverse."""

    def split(self, x: Var, heads: int) -> Var:
        order = [*range(heads)[:8], *reversed(range(heads)[8:])]
        return ops.index(super().split(x, heads), (slice(None), order))
