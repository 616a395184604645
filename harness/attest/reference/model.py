"""The whole model and its loss.

Shapes: B batch, T target length, S source length, D width, V vocabulary.
"""

from __future__ import annotations

import numpy as np

from attest.reference import ops
from attest.reference.layers import LayerFormulas
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


class ModelFormulas(LayerFormulas):
    """M5: encode, decode, project, loss."""

    def source_mask(self, source: Array) -> Array:
        """(B, 1, S), from the ids."""
        return self.padding_mask(source, self.config.pad_id)

    def target_mask(self, target: Array) -> Array:
        """(B, 1, T), from the decoder's own input; the decoder adds the triangle."""
        return self.padding_mask(target, self.config.pad_id)

    def memory_mask(self, source: Array) -> Array:
        """(B, 1, S): what cross-attention may read of the memory."""
        return self.source_mask(source)

    def source_input(self, source: Array, p: Scope) -> Var:
        return self.input_embedding(source, p["source_embedding.weight"])

    def target_input(self, target: Array, p: Scope, offset: int = 0) -> Var:
        return self.input_embedding(target, p["target_embedding.weight"], offset)

    def encode(self, source: Array, p: Scope) -> Var:
        return self.encoder(self.source_input(source, p), self.source_mask(source), p.at("encoder"))

    def decode(self, target: Array, memory: Var, source: Array, p: Scope) -> Var:
        """Raw logits (B, T, V)."""
        x = self.target_input(target, p)
        x = self.decoder(x, memory, self.target_mask(target), self.memory_mask(source), p.at("decoder"))
        return self.project(x, p)

    def projection_weight(self, p: Scope) -> Var:
        """(V, D); the target embedding itself when tied."""
        return p["target_embedding.weight"] if self.config.tie else p["projection.weight"]

    def project(self, x: Var, p: Scope) -> Var:
        logits = ops.matmul(x, ops.swap(self.projection_weight(p)))
        bias = p.get("projection.bias")
        return logits if bias is None else ops.add(logits, bias)

    def transformer(self, source: Array, target: Array, p: Scope) -> Var:
        return self.decode(target, self.encode(source, p), source, p)

    def counted(self, labels: Array) -> Array:
        """Which targets the loss counts: all but padding."""
        counted: Array = labels != self.config.pad_id
        return counted

    def target_distribution(self, labels: Array, classes: int, smoothing: float) -> Array:
        """(B, T, V): 1 - e on the target plus e / V on every class."""
        onehot: Array = labels[..., None] == np.arange(classes)
        return (1.0 - smoothing) * onehot + smoothing / classes

    def token_losses(self, logits: Var, labels: Array, smoothing: float) -> Var:
        """(B, T): cross-entropy of each position."""
        wanted = self.target_distribution(labels, logits.shape[-1], smoothing)
        return ops.scale(ops.sum_last(ops.scale(ops.log_softmax(logits), wanted)), -1.0)

    def reduce_losses(self, losses: Var, counted: Array) -> Var:
        """The mean over what counts; 0 when nothing does."""
        return ops.scale(ops.total(ops.where(counted, losses, 0.0)), 1.0 / max(int(counted.sum()), 1))

    def loss(self, logits: Var, labels: Array, smoothing: float) -> Var:
        return self.reduce_losses(self.token_losses(logits, labels, smoothing), self.counted(labels))
