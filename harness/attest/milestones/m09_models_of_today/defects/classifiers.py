"""Defects of classifiers: which tokens are pooled, and where.

Shapes: ids (B, T), x (B, T, D), real (B, T).
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.models.encoder_only import EncoderOnly
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


class _Pooled(EncoderOnly):
    """One pooling replaced; the others are as they should be."""

    wrong = "mean"

    def wrong_shares(self, real: Array) -> Array:
        raise NotImplementedError

    def shares(self, real: Array) -> Array:
        if self.config.pooling != self.wrong:
            return super().shares(real)
        return np.asarray(self.wrong_shares(real), np.float64)


@defect("M9.13")
class mean_over_all(_Pooled):
    """The mean is over all columns, padding too."""

    def wrong_shares(self, real: Array) -> Array:
        return np.full(real.shape, 1.0 / real.shape[1])


@defect("M9.13")
class divides_by_length_max(_Pooled):
    """The real tokens are added up and divided by the number of columns."""

    def wrong_shares(self, real: Array) -> Array:
        return np.asarray(real / real.shape[1])


@defect("M9.13")
class divides_by_the_mean_length(_Pooled):
    """The real tokens are divided by the mean length of the batch."""

    def wrong_shares(self, real: Array) -> Array:
        return np.asarray(real / real.sum(axis=1).mean())


@defect("M9.13")
class sum_for_the_mean_of_tokens(_Pooled):
    """The real tokens are added up."""

    def wrong_shares(self, real: Array) -> Array:
        return real


@defect("M9.13")
class first_column_for_first_token(_Pooled):
    """The first column is pooled, which is padding where that stands on the left."""

    wrong = "first"

    def wrong_shares(self, real: Array) -> Array:
        return np.broadcast_to(np.arange(real.shape[1]) == 0, real.shape)


@defect("M9.13")
class last_column_for_last_token(_Pooled):
    """The last column is pooled, which is padding where that stands on the right."""

    wrong = "last"

    def wrong_shares(self, real: Array) -> Array:
        T = real.shape[1]
        return np.broadcast_to(np.arange(T) == T - 1, real.shape)


@defect("M9.13")
class last_token_by_the_count(_Pooled):
    """The last token is looked for in the column of the row's length, which is wrong behind padding."""

    wrong = "last"

    def wrong_shares(self, real: Array) -> Array:
        shares: Array = np.arange(real.shape[1]) == real.sum(axis=1, keepdims=True) - 1
        return shares


@defect("M9.13")
class last_token_before_the_first_padding(_Pooled):
    """The last token is the one before the first padding, as where padding is searched for by argmax."""

    wrong = "last"

    def wrong_shares(self, real: Array) -> Array:
        before = (~real).argmax(axis=1)[:, None] - 1  # -1, the last column, where there is none
        shares: Array = np.arange(real.shape[1]) == before % real.shape[1]
        return shares


@defect("M9.13")
class pooling_ignored(EncoderOnly):
    """The mean, whatever is configured."""

    def shares(self, real: Array) -> Array:
        return np.asarray(real / np.maximum(real.sum(axis=1, keepdims=True), 1))


@defect("M9.13")
class pools_before_final_norm(EncoderOnly):
    """What the last layer gives is pooled, and the norm behind the stack comes afterwards."""

    def classified(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        if self.config.norm != "pre":
            return super().classified(ids, segments, p)
        where = self.parts.language_model.place(ids).but(place="encoder")
        layers, encoder = self.parts.layers, p.at("encoder")
        x = self.parts.embedding.of_model(ids, p, where, segments)
        inside = layers.in_stack(encoder, where)
        for i in range(self.config.num_encoder_layers):
            x = layers.encoder_layer(x, layers.layer_scope(encoder, i), inside.but(layer=i))
        pooled = layers.final_norm(self.pooled(x, self.real(ids)), encoder)
        return self.parts.linear(pooled, p, "projection")


@defect("M9.13")
class pooled_vector_is_activated(EncoderOnly):
    """The activation stands between the pooled vector and the classes."""

    def pooled(self, x: Var, real: Array) -> Var:
        return self.parts.activation(super().pooled(x, real))


@defect("M9.13")
class pooled_rows_are_centred(EncoderOnly):
    """The mean of the batch is subtracted from what is pooled."""

    def pooled(self, x: Var, real: Array) -> Var:
        pooled = super().pooled(x, real)
        B = pooled.shape[0]
        return ops.sub(pooled, ops.scale(ops.matmul(_ones(B), pooled), 1.0 / B))


def _ones(rows: int) -> Var:
    return Var(np.ones((rows, rows)))
