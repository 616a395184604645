"""The position-wise feed-forward network, section 3.3 of the paper, and its activations.

Shapes: B batch, T positions, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.scope import Scope
from attest.reference.tape import Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Activation(Part):
    """A function of each number by itself."""

    def __call__(self, x: Var) -> Var:
        raise NotImplementedError


class Relu(Activation):
    """max(0, x)."""

    def __call__(self, x: Var) -> Var:
        return ops.relu(x)


class Gelu(Activation):
    """x times the normal distribution function of x."""

    def __call__(self, x: Var) -> Var:
        return ops.gelu(x)


ACTIVATIONS: Mapping[str, type[Activation]] = {"relu": Relu, "gelu": Gelu}


class FeedForward(Part):
    """W2 act(W1 x + b1) + b2."""

    def activation(self, x: Var) -> Var:
        return self.parts.activation(x)

    def __call__(self, x: Var, p: Scope) -> Var:
        inner = self.activation(self.parts.linear(x, p, "inner"))
        return self.parts.linear(self.parts.dropout(inner, "feed_forward"), p, "outer")


@formula("feed_forward")
def _feed_forward(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.feed_forward(inputs["x"], p)}
