"""Linear maps, and those from which queries, keys and values come.

Shapes: B batch, T positions, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.scope import Scope
from attest.reference.tape import Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Linear(Part):
    """x W^T + b, with the weight and the bias that `name` has in the scope."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        y = ops.matmul(x, ops.swap(p[f"{name}.weight"]))
        bias = p.get(f"{name}.bias")
        return y if bias is None else ops.add_to_product(y, bias, terms=x.shape[-1])


class Projections(Part):
    """Queries, keys and values, each (B, T, D), before they are split into heads."""

    def project_q(self, x: Var, p: Scope) -> Var:
        return self.parts.linear(x, p, "query")

    def project_k(self, x: Var, p: Scope) -> Var:
        return self.parts.linear(x, p, "key")

    def project_v(self, x: Var, p: Scope) -> Var:
        return self.parts.linear(x, p, "value")

    def key_value(self, x: Var, p: Scope) -> tuple[Var, Var]:
        """Keys and values of the same input."""
        return self.project_k(x, p), self.project_v(x, p)

    def qkv_projection(self, x: Var, p: Scope) -> dict[str, Var]:
        return {"q": self.project_q(x, p), "k": self.project_k(x, p), "v": self.project_v(x, p)}


@formula("linear")
def _linear(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    named = Scope({f"linear.{name}": value for name, value in p.values.items()})
    return {"output": parts.linear(inputs["x"], named, "linear")}


@formula("qkv_projection")
def _qkv_projection(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return parts.projections.qkv_projection(inputs["x"], p)
