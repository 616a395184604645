"""Where a trained model looks: the weights of its cross-attention, by the reference's formulas.

Shapes: H heads, T target length, S source length.
"""

from __future__ import annotations

from attest.contract import Arrays, Config
from attest.reference.formulas import OracleFormulas
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf


class Watched(OracleFormulas):
    """The oracle, keeping the weights of every cross-attention it computes."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.seen: list[Array] = []

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        heads = self.multi_head_attention(x, memory, p, mask)
        self.seen.append(heads["weights"].value)
        return heads["output"]


def cross_attention_maps(config: Config, parameters: Arrays, source: Array, target: Array) -> list[Array]:
    """(H, T, S) for each decoder layer, for one source row (1, S) and its target (1, T)."""
    formulas = Watched(config)
    formulas.transformer(source, target, Scope({name: leaf(value) for name, value in parameters.items()}))
    return [weights[0] for weights in formulas.seen]
