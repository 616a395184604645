"""Correct multi-head attention in unusual clothes. What is a variant of M1 too stands in the folder of M1.

Shapes: x (B, T, D).
"""

from __future__ import annotations

from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.parts.linear import Projections
from attest.reference.scope import Scope
from attest.reference.tape import Var


@variant("M2")
class fused_projections(Projections):
    """One product with W_Q, W_K and W_V stacked, cut into three."""

    def qkv_projection(self, x: Var, p: Scope) -> dict[str, Var]:
        D = x.shape[-1]
        joined = self._fused(x, p)
        return {n: ops.columns(joined, i * D, (i + 1) * D) for i, n in enumerate("qkv")}

    def _fused(self, x: Var, p: Scope) -> Var:
        names = ("query", "key", "value")
        weight = ops.concat([p[f"{n}.weight"] for n in names], axis=0)
        biases = [b for b in (p.get(f"{n}.bias") for n in names) if b is not None]
        y = ops.matmul(x, ops.swap(weight))
        return ops.add(y, ops.concat(biases)) if biases else y

    def key_value(self, x: Var, p: Scope) -> tuple[Var, Var]:
        D = x.shape[-1]
        joined = self._fused(x, p)
        return ops.columns(joined, D, 2 * D), ops.columns(joined, 2 * D, 3 * D)
