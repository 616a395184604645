"""Normalisation of a vector, and the residual connection around a sublayer: section 5.4 and 3.1 of the paper.

Shapes: B batch, T positions, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.scope import Scope
from attest.reference.tape import Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts

Sublayer = Callable[[Var], Var]


class LayerNorm(Part):
    """Over the features of each position."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], p["bias"], self.config.norm_eps)


class Residual(Part):
    """post: LN(x + f(x)); pre: x + f(LN(x)). Dropout on the sublayer's output."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return ops.add(x, self.parts.dropout(sublayer(self.parts.norm(x, norm)), "sublayer"))
        return self.parts.norm(ops.add(x, self.parts.dropout(sublayer(x), "sublayer")), norm)


@formula("layer_norm")
def _layer_norm(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.norm(inputs["x"], p)}
