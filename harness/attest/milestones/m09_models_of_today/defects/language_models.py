"""Defects of the decoder-only model: its embedding, its stack and its head. Shapes: x (B, T, D)."""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.models.decoder_only import DecoderOnly
from attest.reference.parts.embedding import Embedding, Logits
from attest.reference.parts.layers import Layers
from attest.reference.parts.linear import Linear
from attest.reference.parts.masks import Masks
from attest.reference.parts.norms import LayerNorm, RMSNorm
from attest.reference.parts.positions import Learned
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@defect("M9.4")
class stack_ends_without_its_norm(Layers):
    """Nothing norms what the last layer gives; layers by themselves are right."""

    def causal_stack(self, x: Var, p: Scope, where: Where) -> Var:
        where = self.in_stack(p, where)
        for i in range(self.config.num_decoder_layers):
            x = self.causal_layer(x, self.layer_scope(p, i), where.but(layer=i))
        return x


@defect("M9.4")
class head_reads_last_residual(DecoderOnly):
    """The head reads the normed stream plus the embedding."""

    def __call__(self, ids: Array, p: Scope) -> Var:
        where = self.place(ids)
        x = self.parts.embedding.of_model(ids, p, where)
        return self.logits(ops.add(self.parts.layers.causal_stack(x, p.at("decoder"), where), x), p)


@defect("M9.4")
class embedding_scaled_anyway(Embedding):
    """Embeddings are multiplied by sqrt(D) whatever scale_embeddings says."""

    def scale(self) -> float:
        return math.sqrt(self.config.d_model)


@defect("M9.4")
class positions_in_every_layer(Layers):
    """What positions add to the embedding is added again before every further layer."""

    def causal_layer(self, x: Var, p: Scope, where: Where) -> Var:
        if where.layer and self.config.positions == "sinusoidal":
            x = self.parts.positions.add(x, where)
        return super().causal_layer(x, p, where)


@defect("M9.4")
class head_found_by_size(Logits):
    """The head is transposed where its first axis has the size of the width: also where V equals D."""

    def weight(self, p: Scope) -> Var:
        weight = super().weight(p)
        return ops.swap(weight) if weight.shape[0] == self.config.d_model else weight


@defect("M9.4")
class last_layer_skipped(Layers):
    """A loop over one layer too few, where there are several."""

    def causal_layer(self, x: Var, p: Scope, where: Where) -> Var:
        last = self.config.num_decoder_layers - 1
        return x if last and where.layer == last else super().causal_layer(x, p, where)


@defect("M9.4")
class one_layer_for_all(Layers):
    """The layers were made by repeating one object."""

    def layer_scope(self, p: Scope, i: int) -> Scope:
        return super().layer_scope(p, 0)


@defect("M9.4")
class embedding_norm_forgotten(Embedding):
    """The norm behind the embedding is built and not called."""

    def of_model(self, ids: Array, p: Scope, where: Where, segments: Array | None = None) -> Var:
        x = ops.scale(self.embed(ids, p["embedding.weight"]), self.scale())
        x = self.parts.positions.add(x, where.but(table=p.get("position_embedding.weight")))
        return self.parts.dropout(x, "embedding")


@defect("M9.4")
class embedding_norm_before_positions(Embedding):
    """The norm behind the embedding sees the tokens alone."""

    def of_model(self, ids: Array, p: Scope, where: Where, segments: Array | None = None) -> Var:
        x = ops.scale(self.embed(ids, p["embedding.weight"]), self.scale())
        x = self.parts.norm(x, p.at("embedding_norm")) if self.config.embedding_norm else x
        x = self.parts.positions.add(x, where.but(table=p.get("position_embedding.weight")))
        return self.parts.dropout(x, "embedding")


@defect("M9.4")
class projection_scale_forgotten(Logits):
    """What the projection reads is not scaled."""

    def scaled(self, x: Var) -> Var:
        return x


@defect("M9.4")
class projection_scale_on_the_bias(Logits):
    """The logits are scaled with their bias, and not what the projection reads."""

    def __call__(self, x: Var, p: Scope) -> Var:
        logits = ops.matmul(x, ops.swap(self.weight(p)))
        bias = p.get("projection.bias")
        return ops.scale(logits if bias is None else ops.add(logits, bias), self.config.projection_scale)


@defect("M9.4")
class head_bias_forgotten(Logits):
    """A bias that only the head has is never added."""

    def __call__(self, x: Var, p: Scope) -> Var:
        if self.config.bias:
            return super().__call__(x, p)
        return ops.matmul(self.scaled(x), ops.swap(self.weight(p)))


@defect("M9.4")
class qkv_bias_forgotten(Linear):
    """Queries, keys and values have a bias only if every map has one."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        if name not in ("query", "key", "value") or self.config.bias:
            return super().__call__(x, p, name)
        return ops.matmul(x, ops.swap(p[f"{name}.weight"]))


@defect("M9.4")
class logits_are_log_probabilities(Logits):
    """The head ends in a logarithm of softmax."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.log_softmax(super().__call__(x, p))


@defect("M9.4")
class logits_capped(Logits):
    """Logits are bent by 30 tanh(logits / 30), as another family has it."""

    def __call__(self, x: Var, p: Scope) -> Var:
        logits = super().__call__(x, p)
        bent = np.tanh(logits.value / 30.0)
        return ops.elementwise(logits, 30.0 * bent, 1.0 - bent * bent)


@defect("M9.4")
class last_logits_everywhere(DecoderOnly):
    """The head is applied to the last token alone, and its logits are given for every token."""

    def logits(self, x: Var, p: Scope) -> Var:
        logits = super().logits(x, p)
        return ops.index(logits, (slice(None), np.full(logits.shape[1], -1)))


@defect("M9.4")
class padding_attended(DecoderOnly):
    """Padding is a token like any other for those that come behind it."""

    def place(self, ids: Array) -> Where:
        return super().place(ids).but(mask=None)


@defect("M9.4")
class positions_count_padding(DecoderOnly):
    """A token's position is its place in the array."""

    def positions(self, real: Array, before: Array) -> Array:
        return super().positions(np.ones_like(real), before)


@defect("M9.4")
class learned_rows_from_one(Learned):
    """The first token of a model gets row 1 of the table, as where padding has row 0."""

    def rows(self, table: Var, positions: Array) -> Var:
        return super().rows(table, np.minimum(positions + 1, self.config.max_len - 1))


@defect("M9.4")
class window_in_the_first_layer_alone(Masks):
    """Layers behind the first see everything."""

    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        return mask if where.layer else super().within_window(mask, where, T, S)


@defect("M9.4")
class last_norm_has_the_usual_eps(Layers):
    """The norm behind the stack was built with its default eps."""

    def final_norm(self, x: Var, p: Scope) -> Var:
        if self.config.norm != "pre":
            return x
        return self.parts.but(norm_eps=1e-5).norm(x, p.at("norm"))


@defect("M9.4")
class pad_id_is_zero(DecoderOnly):
    """Padding is id 0 whatever is configured."""

    def real(self, ids: Array) -> Array:
        return self.parts.masks.padding_mask(ids, 0)[:, 0]


LEAST_EPS = 1e-6


@defect("M9.4", "M9.10")
class small_eps_raised(LayerNorm):
    """An eps below 1e-6 becomes 1e-6; BERT has 1e-12."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], p["bias"], max(self.config.norm_eps, LEAST_EPS))


@defect("M9.4")
class small_eps_raised_in_rms(RMSNorm):
    """An eps below 1e-6 becomes 1e-6."""

    def __call__(self, x: Var, p: Scope) -> Var:
        right = self.parts.but(norm_eps=max(self.config.norm_eps, LEAST_EPS))
        return RMSNorm(right.config, right)(x, p)


@defect("M9.4")
class late_tokens_read_the_first_rows(Learned):
    """In a model positions beyond 1000 count from 0 again."""

    def rows(self, table: Var, positions: Array) -> Var:
        return super().rows(table, positions % 1000)
