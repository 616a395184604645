"""Where a model looks: the weights of all its attentions, by the reference's formulas.

Any implementation's trained model can be looked at: its canonical parameters are all that is needed.

Shapes: B batch, H heads, T target length, S source length, L and N layers of encoder and decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from attest.contract import Arrays, Config
from attest.reference import ops
from attest.reference.assembly import Parts, oracle_parts
from attest.reference.parts.layers import Layers
from attest.reference.parts.part import Inputs, Outputs, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf

Removed = frozenset[tuple[str, int, int]]  # kind of attention, layer, head


@dataclass(frozen=True)
class Maps:
    """Weights before dropout: encoder (L, B, H, S, S), decoder (N, B, H, T, T), cross (N, B, H, T, S)."""

    encoder: Array
    decoder: Array
    cross: Array
    logits: Array

    @property
    def kinds(self) -> Mapping[str, Array]:
        """By kind of attention."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}


class Watched(Layers):
    """Layers that keep the weights of every attention they compute."""

    def __init__(self, config: Config, parts: Parts) -> None:
        super().__init__(config, parts)
        self.seen: dict[str, list[Var]] = {"encoder": [], "decoder": [], "cross": []}

    def self_attention(self, x: Var, p: Scope, where: Where) -> Var:
        return self._attended(x, x, p, where, where.place)

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return self._attended(x, memory, p, where, "cross")

    def _attended(self, x: Var, read: Var, p: Scope, where: Where, kind: str) -> Var:
        heads = self.parts.heads(x, read, p, where)
        self.seen[kind].append(heads["weights"])
        return heads["output"]


def attention_maps(config: Config, parameters: Arrays, source: Array, target: Array) -> Maps:
    """Of source (B, S) and target (B, T), in evaluation mode."""
    parts = oracle_parts(config.but(dropout=0.0), Watched)
    scope = Scope({name: leaf(value) for name, value in parameters.items()})
    with np.errstate(all="ignore"):
        logits = parts.model(source, target, scope).value
    assert isinstance(parts.layers, Watched)
    seen = {kind: np.stack([w.value for w in found]) for kind, found in parts.layers.seen.items()}
    return Maps(seen["encoder"], seen["decoder"], seen["cross"], logits)


@formula("attention_maps")
def _attention_maps(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    watching = Parts(parts.config, *parts.pieces, Watched)
    watching.model(inputs["source"], inputs["target"], p)
    assert isinstance(watching.layers, Watched)
    return {kind: ops.stack(found, 0) for kind, found in watching.layers.seen.items()}


def cross_attention_maps(config: Config, parameters: Arrays, source: Array, target: Array) -> list[Array]:
    """(H, T, S) for each decoder layer, for one source row (1, S) and its target (1, T)."""
    return [weights[0] for weights in attention_maps(config, parameters, source, target).cross]


def without_heads(config: Config, parameters: Arrays, removed: Removed) -> dict[str, Array]:
    """The parameters of a model in which these heads bring nothing: their columns of W_O are zero.

    That is the same as zeroing what they read: a head's output reaches the model through these columns alone.
    """
    d = config.d_model // config.num_heads
    found = {name: np.array(value) for name, value in parameters.items()}
    for kind, layer, head in removed:
        stack, attention = ("decoder", "cross") if kind == "cross" else (kind, "self")
        name = f"{stack}.{layer}.{attention}_attention.output.weight"
        found[name][:, head * d : (head + 1) * d] = 0.0
    return found


def rollout(maps: Array) -> Array:
    """(L, ..., T, T) weights, averaged over heads or not, to how much each position holds of each input.

    Each layer passes on half of itself by the residual connection and half by attention: 0.5 A + 0.5 I with
    rows that sum to one (https://arxiv.org/abs/2005.00928, section 3). The last layer stands on the left. A
    row without a visible key keeps itself.
    """
    size = maps.shape[-1]
    identity = np.eye(size)
    total = np.broadcast_to(identity, maps.shape[1:])
    for layer in maps:
        mixed = 0.5 * layer + 0.5 * identity
        total = (mixed / mixed.sum(axis=-1, keepdims=True)) @ total
    return np.array(total)
