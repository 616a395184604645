"""The encoder-decoder of the paper: how embeddings, stacks and the last map are wired.

Shapes: B batch, T target length, S source length, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class EncoderDecoder(Part):
    """Encode the source once, decode the target against it."""

    def source_mask(self, source: Array) -> Array:
        """(B, 1, S), from the ids."""
        return self.parts.masks.padding_mask(source, self.config.pad_id)

    def target_mask(self, target: Array) -> Array:
        """(B, 1, T), from the decoder's own input; the decoder adds the triangle."""
        return self.parts.masks.padding_mask(target, self.config.pad_id)

    def memory_mask(self, source: Array) -> Array:
        """(B, 1, S): what cross-attention may read of the memory."""
        return self.source_mask(source)

    def source_input(self, source: Array, p: Scope) -> Var:
        return self.parts.embedding(source, self.table(p, "source_embedding"), Where())

    def target_input(self, target: Array, p: Scope, where: Where) -> Var:
        return self.parts.embedding(target, self.table(p, "target_embedding"), where)

    def table(self, p: Scope, side: str) -> Var:
        """The rows of one side, or those that both share."""
        return p["embedding.weight"] if self.config.share_embeddings else p[f"{side}.weight"]

    def encode(self, source: Array, p: Scope) -> Var:
        where = Where(self.source_mask(source), place="encoder")
        return self.parts.layers.encoder(self.source_input(source, p), p.at("encoder"), where)

    def decode(self, target: Array, memory: Var, source: Array, p: Scope) -> Var:
        """Raw logits (B, T, V)."""
        where = Where(self.target_mask(target), self.memory_mask(source), place="decoder")
        x = self.parts.layers.decoder(self.target_input(target, p, where), memory, p.at("decoder"), where)
        return self.parts.logits(x, p)

    def __call__(self, source: Array, target: Array, p: Scope) -> Var:
        return self.decode(target, self.encode(source, p), source, p)


@formula("transformer")
def _transformer(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"logits": parts.model(inputs["source"], inputs["target"], p)}


@formula("encode")
def _encode(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"memory": parts.model.encode(inputs["source"], p)}


@formula("decode")
def _decode(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"logits": parts.model.decode(inputs["target"], inputs["memory"], inputs["source"], p)}
