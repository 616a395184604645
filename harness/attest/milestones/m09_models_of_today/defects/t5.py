"""Defects of the encoder-decoder in the manner of T5.

Shapes: scores (B, H, T, S), a table of buckets (buckets, H).
"""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.decoding.cache import Cache, State
from attest.reference.models.encoder_decoder import EncoderDecoder
from attest.reference.parts.attention import Attention
from attest.reference.parts.embedding import Logits
from attest.reference.parts.layers import Layers
from attest.reference.parts.relative_positions import Relative
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf


@defect("M9.14")
class scores_scaled(Attention):
    """Scores are divided by sqrt(d), whatever attention_scale says."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.scale(scores, 1.0 / math.sqrt(q.shape[-1]))


@defect("M9.14")
class bias_scaled_with_the_scores(Attention):
    """The bias is added before the scores are scaled."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return super().scale(super().biased(scores, where), q, k, where)

    def biased(self, scores: Var, where: Where) -> Var:
        return scores


@defect("M9.14")
class bias_first_layer_only(Relative):
    """Layers behind the first have no bias."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return None if where.layer else super().bias(p, where, T, S)


@defect("M9.14")
class bias_in_cross(Relative):
    """Cross-attention reads the table of the decoder as well."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        if where.place != "cross":
            return super().bias(p, where, T, S)
        table = Scope(p.values).get("decoder.relative.weight")
        keys = np.arange(S)[None, None, :] - where.queries(T)[:, :, None]
        return None if table is None else self.looked_up(table, self.buckets(keys, True))


@defect("M9.14")
class bias_per_layer(Relative):
    """Each layer reads the shared table one bucket further on, as if it had one of its own."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        if where.table is None or not where.layer:
            return super().bias(p, where, T, S)
        n = where.table.shape[0]
        order = [(row + where.layer) % n for row in range(n)]
        return super().bias(p, where.but(table=ops.index(where.table, order)), T, S)


@defect("M9.14")
class decoder_bidirectional_buckets(Relative):
    """The decoder keeps half its buckets for tokens that it cannot see."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        return super().buckets(offsets, False)


@defect("M9.14")
class encoder_one_sided_buckets(Relative):
    """The encoder takes every later token for a distance of 0."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        return super().buckets(offsets, True)


@defect("M9.14")
class encoder_distances_turned_round(Relative):
    """Earlier and later keys have each other's buckets in the encoder."""

    def buckets(self, offsets: Array, causal: bool) -> Array:
        return super().buckets(offsets if causal else -offsets, causal)


@defect("M9.14")
class decoder_reads_the_table_of_the_encoder(Layers):
    """One table of buckets serves both stacks."""

    def in_stack(self, p: Scope, where: Where) -> Where:
        shared = Scope(p.values).get("encoder.relative.weight")
        return super().in_stack(p, where) if shared is None else where.but(table=shared)


@defect("M9.14")
class heads_share_their_bias(Relative):
    """Every head reads the column of the first."""

    def looked_up(self, table: Var, buckets: Array) -> Var:
        return super().looked_up(ops.index(table, (slice(None), [0] * table.shape[1])), buckets)


@defect("M9.14")
class tied_output_unscaled(Logits):
    """The output is not scaled where its table is tied."""

    def scaled(self, x: Var) -> Var:
        return x if self.config.tie else super().scaled(x)


@defect("M9.14")
class source_scaled_by_the_root(EncoderDecoder):
    """The shared table is multiplied by sqrt(D) on the source's side, whatever is configured."""

    def source_input(self, source: Array, p: Scope) -> Var:
        found = super().source_input(source, p)
        plain = not self.config.scale_embeddings and self.config.share_embeddings
        return ops.scale(found, math.sqrt(self.config.d_model)) if plain else found


@defect("M9.14")
class buckets_learn_in_the_first_layer_only(Relative):
    """Backward, layers behind the first read the table as a constant."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        if where.table is None or not where.layer:
            return super().bias(p, where, T, S)
        return super().bias(p, where.but(table=leaf(where.table.value, eps=where.table.eps)), T, S)


@defect("M9.14a", "M9.14c")
class steps_lose_the_relative_bias(Relative):
    """Steps behind the first have no bias."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return None if where.offset else super().bias(p, where, T, S)


@defect("M9.14a", "M9.14c")
class cached_distances_begin_anew(Relative):
    """In a step, the query stands at position 0 and all keys kept before it at theirs."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        if where.place == "cross" or not where.offset:
            return super().bias(p, where, T, S)
        keys: Array = np.arange(S)[None, :]
        return super().bias(p, where.but(positions=np.arange(T)[None, :], key_positions=keys), T, S)


@defect("M9.14a")
class bias_of_the_last_key_for_all(Relative):
    """The bias of a step is made for the new token and broadcast over the past."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        found = super().bias(p, where, T, S)
        if found is None or not where.offset:
            return found
        return ops.index(found, (..., [S - 1] * S))


@defect("M9.14a")
class table_of_a_stack_lost_in_steps(Cache):
    """Steps read the encoder's table of buckets."""

    def step(self, state: State, tokens: Array, p: Scope) -> tuple[Var, State]:
        table = p.get("encoder.relative.weight")
        if table is None:
            return super().step(state, tokens, p)
        return super().step(state, tokens, Scope({**p.values, "decoder.relative.weight": table}, p.prefix))
