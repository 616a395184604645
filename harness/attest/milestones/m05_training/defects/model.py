"""Defects of the whole model: wiring, masks made from ids, projection and tying.

Shapes: source (B, S), target (B, T), logits (B, T, V).
"""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.formulas import Formulas
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach, leaf
from attest.reference.trainer import ReferenceTrainer
from attest.reference.transformer import ReferenceTransformer


@defect("M5.1")
class positions_missing_on_target(Formulas):
    """The decoder's input is token rows alone."""

    def target_input(self, target: Array, p: Scope, offset: int = 0) -> Var:
        tokens = self.embed(target, p["target_embedding.weight"])
        return self.dropout(ops.scale(tokens, self.embedding_scale()), "embedding")


@defect("M5.1")
class target_positions_from_one(Formulas):
    """The decoder counts positions from 1."""

    def target_input(self, target: Array, p: Scope, offset: int = 0) -> Var:
        return super().target_input(target, p, offset + 1)


@defect("M5.1")
class source_target_swapped(Formulas):
    """The encoder looks its ids up in the target's table and the decoder in the source's."""

    def source_input(self, source: Array, p: Scope) -> Var:
        return self.input_embedding(source, p["target_embedding.weight"])

    def target_input(self, target: Array, p: Scope, offset: int = 0) -> Var:
        return self.input_embedding(target, p["source_embedding.weight"], offset)


@defect("M5.1")
class one_table_for_both(Formulas):
    """The target is looked up in the source's table."""

    def target_input(self, target: Array, p: Scope, offset: int = 0) -> Var:
        table = p["source_embedding.weight"]
        return self.input_embedding(target % table.shape[0], table, offset)


@defect("M5.1")
class target_mask_from_labels(Formulas):
    """The decoder's padding mask is made from the labels, one position to the left."""

    def target_mask(self, target: Array) -> Array:
        labels = np.concatenate([target[:, 1:], np.full_like(target[:, :1], self.config.pad_id)], 1)
        return super().target_mask(labels)


@defect("M5.1")
class source_padding_is_seen(Formulas):
    """The encoder attends to padding."""

    def encode(self, source: Array, p: Scope) -> Var:
        return self.encoder(self.source_input(source, p), None, p.at("encoder"))


@defect("M5.1")
class memory_padding_is_seen(Formulas):
    """Cross-attention reads the memory at padding."""

    def memory_mask(self, source: Array) -> Array:
        return np.ones_like(super().memory_mask(source))


@defect("M5.1")
class pad_id_hard_coded(Formulas):
    """Masks take 0 for padding whatever pad_id says."""

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return super().padding_mask(ids, 0)


@defect("M5.1")
class memory_without_final_norm(Formulas):
    """A pre-norm encoder hands its memory on without the norm after the stack."""

    def encoder(self, x: Var, mask: Array | None, p: Scope) -> Var:
        for i in range(self.config.num_encoder_layers):
            x = self.encoder_layer(x, mask, self.layer_scope(p, i))
        return x


@defect("M5.4", "M5.1")
class decoder_ignores_memory(Formulas):
    """Cross-attention reads the decoder's own states in place of the memory."""

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        return self.multi_head_attention(x, x, p, None, causal=True)["output"]


@defect("M5.2", "M5.1")
class softmax_in_forward(Formulas):
    """The model returns probabilities."""

    def project(self, x: Var, p: Scope) -> Var:
        return ops.softmax(super().project(x, p))


@defect("M5.2")
class log_softmax_in_forward(Formulas):
    """The model returns log-probabilities: the loss is right, the logits are not raw."""

    def project(self, x: Var, p: Scope) -> Var:
        return ops.log_softmax(super().project(x, p))


@defect("M5.2")
class projection_scaled(Formulas):
    """Logits are divided by sqrt(d_model)."""

    def project(self, x: Var, p: Scope) -> Var:
        return ops.scale(super().project(x, p), 1.0 / math.sqrt(self.config.d_model))


@defect("M5.2")
class projection_bias_missing(Formulas):
    """The projection has a bias and does not add it."""

    def project(self, x: Var, p: Scope) -> Var:
        return ops.matmul(x, ops.swap(self.projection_weight(p)))


@defect("M5.2a")
class tied_projection_scaled(Formulas):
    """The tied weight keeps the factor sqrt(d_model) on the output side."""

    def projection_weight(self, p: Scope) -> Var:
        weight = super().projection_weight(p)
        return ops.scale(weight, self.embedding_scale()) if self.config.tie else weight


@defect("M5.2a")
class tied_gradient_overwritten(Formulas):
    """The tied weight learns from its lookups only."""

    def projection_weight(self, p: Scope) -> Var:
        weight = super().projection_weight(p)
        return detach(weight) if self.config.tie else weight


@defect("M5.2a")
class tied_by_copy(ReferenceTrainer):
    """The projection is a copy of the target embedding, and the first step parts them."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        if self.config.tie and not hasattr(self, "copied"):
            self.copied = leaf(self.model.values["target_embedding.weight"].copy())
            self.formulas.projection_weight = lambda p: self.copied  # type: ignore[method-assign]
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
