"""Feed-forward, embeddings, positions, norms, residuals, layers and stacks.

Shapes: B batch, T target length, S source length, D width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from attest.reference import ops
from attest.reference.attention import AttentionFormulas
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

Sublayer = Callable[[Var], Var]


class LayerFormulas(AttentionFormulas):
    """M3 and M4."""

    def activation(self, x: Var) -> Var:
        return ops.gelu(x) if self.config.activation == "gelu" else ops.relu(x)

    def feed_forward(self, x: Var, p: Scope) -> Var:
        """W2 act(W1 x + b1) + b2."""
        inner = self.activation(self.linear(x, p, "inner"))
        return self.linear(self.dropout(inner, "feed_forward"), p, "outer")

    def embed(self, ids: Array, table: Var) -> Var:
        """Rows of the table; the padding row is looked up but never learned."""
        return ops.take(table, ids, learned=ids != self.config.pad_id)

    def embedding_scale(self) -> float:
        return math.sqrt(self.config.d_model) if self.config.scale_embeddings else 1.0

    def position_table(self, length: int, width: int) -> Array:
        """(length, width): sine in even columns, cosine in odd ones, from position 0."""
        angle = self.position_angles(length, width)
        return np.where(np.arange(width) % 2 == 0, np.sin(angle), np.cos(angle))

    def position_angles(self, length: int, width: int) -> Array:
        """position / 10000^(2i / D)."""
        positions: Array = np.arange(length, dtype=np.float64)[:, None]
        return positions / self.position_base() ** self.position_exponents(width)

    def position_base(self) -> float:
        return 10000.0

    def position_exponents(self, width: int) -> Array:
        """2i / D for the columns 2i and 2i + 1."""
        columns: Array = np.arange(width)
        exponents: Array = (columns - columns % 2) / width
        return exponents

    def positions(self, length: int) -> Array:
        """The first `length` rows of the table of max_len positions."""
        if length > self.config.max_len:
            raise ValueError(
                f"length={length} exceeds max_len={self.config.max_len}; shorten the input or raise max_len"
            )
        return self.position_buffer()[:length]

    def position_buffer(self) -> Array:
        """The table the model holds, made once."""
        if not hasattr(self, "_table"):
            self._table = self.position_table(self.config.max_len, self.config.d_model)
        return self._table

    def add_positions(self, x: Var, offset: int = 0) -> Var:
        """x plus the positions from `offset` on."""
        table = self.positions(offset + x.shape[1])[offset:]
        return ops.add(x, Var(table, self.position_variance(table, offset, x.eps), x.eps))

    def position_variance(self, table: Array, offset: int, eps: float) -> Array | None:
        """Of a table made in float32 or better: the angle is rounded too, and grows with the position."""
        if not eps:
            return None
        angle = self.position_angles(offset + len(table), table.shape[1])[offset:]
        error: Array = eps + 2 * min(eps, 2.0**-24) * angle
        return error * error

    def input_embedding(self, ids: Array, table: Var, offset: int = 0) -> Var:
        """Scaled token rows plus positions, then dropout."""
        tokens = ops.scale(self.embed(ids, table), self.embedding_scale())
        return self.dropout(self.add_positions(tokens, offset), "embedding")

    def layer_norm(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], p["bias"], self.config.norm_eps)

    def residual(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        """post: LN(x + f(x)); pre: x + f(LN(x)). Dropout on the sublayer's output."""
        if self.config.norm == "pre":
            return ops.add(x, self.dropout(sublayer(self.layer_norm(x, norm)), "sublayer"))
        return self.layer_norm(ops.add(x, self.dropout(sublayer(x), "sublayer")), norm)

    def self_attention(self, x: Var, mask: Array | None, p: Scope, causal: bool) -> Var:
        return self.multi_head_attention(x, x, p, mask, causal)["output"]

    def cross_attention(self, x: Var, memory: Var, mask: Array | None, p: Scope) -> Var:
        """Queries from the decoder, keys and values from the encoder."""
        return self.multi_head_attention(x, memory, p, mask)["output"]

    def encoder_layer(self, x: Var, mask: Array | None, p: Scope) -> Var:
        x = self.residual(
            x, lambda y: self.self_attention(y, mask, p.at("self_attention"), causal=False), p.at("norm0")
        )
        return self.residual(x, lambda y: self.feed_forward(y, p.at("feed_forward")), p.at("norm1"))

    def decoder_self_attention(self, x: Var, mask: Array | None, p: Scope) -> Var:
        """Always causal; a mask comes on top."""
        return self.self_attention(x, mask, p, causal=True)

    def decoder_layer(
        self, x: Var, memory: Var, mask: Array | None, memory_mask: Array | None, p: Scope
    ) -> Var:
        """Masked self-attention, cross-attention, feed-forward, in this order."""
        x = self.residual(
            x, lambda y: self.decoder_self_attention(y, mask, p.at("self_attention")), p.at("norm0")
        )
        x = self.residual(
            x, lambda y: self.cross_attention(y, memory, memory_mask, p.at("cross_attention")), p.at("norm1")
        )
        return self.residual(x, lambda y: self.feed_forward(y, p.at("feed_forward")), p.at("norm2"))

    def layer_scope(self, p: Scope, i: int) -> Scope:
        """The parameters of layer i of a stack."""
        return p.at(str(i))

    def final_norm(self, x: Var, p: Scope) -> Var:
        """One norm after a pre-norm stack, none after a post-norm one."""
        return self.layer_norm(x, p.at("norm")) if self.config.norm == "pre" else x

    def encoder(self, x: Var, mask: Array | None, p: Scope) -> Var:
        for i in range(self.config.num_encoder_layers):
            x = self.encoder_layer(x, mask, self.layer_scope(p, i))
        return self.final_norm(x, p)

    def memory_for_layer(self, i: int, memory: Var) -> Var:
        """What decoder layer i reads across."""
        return memory

    def decoder(self, x: Var, memory: Var, mask: Array | None, memory_mask: Array | None, p: Scope) -> Var:
        for i in range(self.config.num_decoder_layers):
            read = self.memory_for_layer(i, memory)
            x = self.decoder_layer(x, read, mask, memory_mask, self.layer_scope(p, i))
        return self.final_norm(x, p)
