"""Defects of the whole model: wiring, masks made from ids, projection and tying.

Shapes: source (B, S), target (B, T), logits (B, T, V).
"""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.models.encoder_decoder import EncoderDecoder
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.parts.embedding import Logits
from attest.reference.parts.layers import Layers
from attest.reference.parts.masks import Masks
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach, leaf
from attest.reference.training.trainer import ReferenceTrainer


@defect("M5.1")
class positions_missing_on_target(EncoderDecoder):
    """The decoder's input is token rows alone."""

    def target_input(self, target: Array, p: Scope, where: Where) -> Var:
        tokens = self.parts.embedding.embed(target, p["target_embedding.weight"])
        return self.parts.dropout(ops.scale(tokens, self.parts.embedding.scale()), "embedding")


@defect("M5.1")
class target_positions_from_one(EncoderDecoder):
    """The decoder counts positions from 1."""

    def target_input(self, target: Array, p: Scope, where: Where) -> Var:
        return super().target_input(target, p, where.but(offset=where.offset + 1))


@defect("M5.1")
class source_target_swapped(EncoderDecoder):
    """The encoder looks its ids up in the target's table and the decoder in the source's."""

    def source_input(self, source: Array, p: Scope) -> Var:
        return self.parts.embedding(source, p["target_embedding.weight"], Where())

    def target_input(self, target: Array, p: Scope, where: Where) -> Var:
        return self.parts.embedding(target, p["source_embedding.weight"], where)


@defect("M5.1")
class one_table_for_both(EncoderDecoder):
    """The target is looked up in the source's table."""

    def target_input(self, target: Array, p: Scope, where: Where) -> Var:
        table = p["source_embedding.weight"]
        return self.parts.embedding(target % table.shape[0], table, where)


@defect("M5.1")
class target_mask_from_labels(EncoderDecoder):
    """The decoder's padding mask is made from the labels, one position to the left."""

    def target_mask(self, target: Array) -> Array:
        labels = np.concatenate([target[:, 1:], np.full_like(target[:, :1], self.config.pad_id)], 1)
        return super().target_mask(labels)


@defect("M5.1")
class source_padding_is_seen(EncoderDecoder):
    """The encoder attends to padding."""

    def encode(self, source: Array, p: Scope) -> Var:
        return self.parts.layers.encoder(
            self.source_input(source, p), p.at("encoder"), Where(place="encoder")
        )


@defect("M5.1")
class memory_padding_is_seen(EncoderDecoder):
    """Cross-attention reads the memory at padding."""

    def memory_mask(self, source: Array) -> Array:
        return np.ones_like(super().memory_mask(source))


@defect("M5.1")
class pad_id_hard_coded(Masks):
    """Masks take 0 for padding whatever pad_id says."""

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return super().padding_mask(ids, 0)


@defect("M5.1")
class memory_without_final_norm(Layers):
    """A pre-norm encoder hands its memory on without the norm after the stack."""

    def encoder(self, x: Var, p: Scope, where: Where) -> Var:
        for i in range(self.config.num_encoder_layers):
            x = self.encoder_layer(x, self.layer_scope(p, i), where.but(layer=i))
        return x


@defect("M5.4", "M5.1")
class decoder_ignores_memory(Layers):
    """Cross-attention reads the decoder's own states in place of the memory."""

    def cross_attention(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        return self.parts.heads(x, x, p, where.but(mask=None, causal=True))["output"]


@defect("M5.2", "M5.1")
class softmax_in_forward(Logits):
    """The model returns probabilities."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.softmax(super().__call__(x, p))


@defect("M5.2")
class log_softmax_in_forward(Logits):
    """The model returns log-probabilities: the loss is right, the logits are not raw."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.log_softmax(super().__call__(x, p))


@defect("M5.2")
class projection_scaled(Logits):
    """Logits are divided by sqrt(d_model)."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.scale(super().__call__(x, p), 1.0 / math.sqrt(self.config.d_model))


@defect("M5.2")
class projection_bias_missing(Logits):
    """The projection has a bias and does not add it."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.matmul(x, ops.swap(self.weight(p)))


@defect("M5.2a")
class tied_projection_scaled(Logits):
    """The tied weight keeps the factor sqrt(d_model) on the output side."""

    def weight(self, p: Scope) -> Var:
        weight = super().weight(p)
        return ops.scale(weight, self.parts.embedding.scale()) if self.config.tie else weight


@defect("M5.2a")
class tied_gradient_overwritten(Logits):
    """The tied weight learns from its lookups only."""

    def weight(self, p: Scope) -> Var:
        weight = super().weight(p)
        return detach(weight) if self.config.tie else weight


@defect("M5.2a")
class tied_by_copy(ReferenceTrainer):
    """The projection is a copy of the target embedding, and the first step parts them."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        if self.config.tie and not hasattr(self, "copied"):
            self.copied = leaf(self.model.values["target_embedding.weight"].copy())
            self.parts.logits.weight = lambda p: self.copied  # type: ignore[method-assign]
        super().apply(found, rate)


@defect("M5.1")
class decode_sees_source_padding(ReferenceTransformer):
    """The whole model masks the memory; decode, called by itself, does not."""

    def decode(self, *, target: Array, memory: Array, source: Array) -> dict[str, Array]:
        unpadded = np.where(source == self.config.pad_id, self.config.eos_id, source)
        return super().decode(target=target, memory=memory, source=unpadded)


@defect("M5.10a")
class loud_at_the_start(ReferenceTransformer):
    """The projection starts with weights of unit size."""

    def initial(self) -> dict[str, Array]:
        values = super().initial()
        rng = np.random.default_rng(self.config.seed)
        weight = values["projection.weight"]
        return values | {"projection.weight": rng.standard_normal(weight.shape).astype(weight.dtype)}
