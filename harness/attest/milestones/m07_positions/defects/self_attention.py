"""Defects of self-attention with positions. Shapes: x (B, T, D), q and k (..., T, d)."""

from __future__ import annotations

from attest.judging.catalogue import defect
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Var


@defect("M7.12")
class positions_ignored_in_attention(MultiHead):
    """Attention counts its positions from 0, whatever was given."""

    def __call__(self, query: Var, key_value: Var, p: Scope, where: Where) -> dict[str, Var]:
        return super().__call__(query, key_value, p, where.but(positions=None))
