"""Where a trained model looks: the weights of its cross-attention, by the reference's formulas.

Shapes: H heads, T target length, S source length.
"""

from __future__ import annotations

from attest.contract import Arrays, Config
from attest.reference.assembly import Parts, oracle_parts
from attest.reference.parts.layers import Layers
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf


class Watched(Layers):
    """Layers that keep the weights of every cross-attention they compute."""

    def __init__(self, config: Config, parts: Parts) -> None:
        super().__init__(config, parts)
        self.seen: list[Array] = []

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        heads = self.parts.heads(x, memory, p, where)
        self.seen.append(heads["weights"].value)
        return heads["output"]


def cross_attention_maps(config: Config, parameters: Arrays, source: Array, target: Array) -> list[Array]:
    """(H, T, S) for each decoder layer, for one source row (1, S) and its target (1, T)."""
    parts = oracle_parts(config, Watched)
    parts.model(source, target, Scope({name: leaf(value) for name, value in parameters.items()}))
    assert isinstance(parts.layers, Watched)
    return [weights[0] for weights in parts.layers.seen]
