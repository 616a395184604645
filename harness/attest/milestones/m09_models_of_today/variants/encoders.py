"""Correct but unusual encoders, classifiers, hidden tokens and models in the manner of T5.

Shapes: ids (B, T), x (B, T, D), logits (B, T, V).
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.models.encoder_only import EncoderOnly
from attest.reference.parts.attention import Attention
from attest.reference.parts.embedding import Logits
from attest.reference.parts.masking import HIDDEN, RANDOM, TokenMasking
from attest.reference.parts.relative_positions import Relative
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var
from attest.reference.training.loss import MaskedLoss


@variant("M9")
class classes_of_tokens_are_pooled(EncoderOnly):
    """Every token is classified and the logits are pooled: the map is linear, so the order is free."""

    def classified(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        x = self.encode(ids, segments, p)
        return self.pooled(self.parts.linear(x, p, "projection"), self.real(ids))


@variant("M9")
class each_row_is_encoded_alone(EncoderOnly):
    """Padding is taken out, every row is encoded by itself, and zeros are put in its place."""

    def encode(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        rows = [
            self.one_row(ids[[b]], None if segments is None else segments[[b]], p) for b in range(len(ids))
        ]
        return ops.concat(rows, axis=0)

    def one_row(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        """(1, T, D)."""
        real = self.real(ids)[0]
        kept = None if segments is None else segments[:, real]
        x = super().encode(ids[:, real], kept, p)
        places = np.maximum(np.cumsum(real) - 1, 0)
        return ops.where(real[None, :, None], ops.index(x, (slice(None), places)), 0.0)


@variant("M9")
class padding_gets_a_large_penalty(Attention):
    """Hidden keys are far below the others in place of being left out, wherever a query sees a key."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is None or where.place != "encoder":
            return super().weights_from(scores, allowed, where)
        sees = np.broadcast_to(allowed, scores.shape)
        penalised = ops.where(sees | ~sees.any(axis=-1, keepdims=True), scores, -1e30)
        return super().weights_from(penalised, None if sees.any(axis=-1).all() else allowed, where)


@variant("M9")
class tokens_are_hidden_one_by_one(TokenMasking):
    """One number decides over choice and fate of each token, from another generator, token by token."""

    def __call__(
        self, ids: Array, mask_id: int, vocabulary: int, special: Array, seed: int, rate: float
    ) -> Array:
        rng = np.random.Generator(np.random.Philox(key=seed))
        ordinary = self.ordinary(vocabulary, mask_id, special)
        masked, chosen = ids.copy(), self.eligible(ids, ordinary).astype(np.int64)
        for place in np.argwhere(chosen):
            at, lot = tuple(place), rng.random()
            chosen[at] = lot < rate
            if lot < HIDDEN * rate:
                masked[at] = mask_id
            elif lot < (HIDDEN + RANDOM) * rate:
                masked[at] = ordinary[rng.integers(len(ordinary))]
        return np.stack([masked, chosen])


@variant("M9")
class chosen_tokens_are_counted_first(TokenMasking):
    """How many tokens are chosen is drawn from the binomial distribution, then which: the same law."""

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        places = np.flatnonzero(eligible)
        count = rng.binomial(len(places), rate)
        chosen = np.zeros(eligible.size, bool)
        chosen[rng.permutation(places)[:count]] = True
        return chosen.reshape(eligible.shape)


@variant("M9")
class loss_of_gathered_tokens(MaskedLoss):
    """Only the logits of chosen tokens are gathered; the others are never looked at."""

    def __call__(self, logits: Var, ids: Array, asked: Array, smoothing: float) -> Var:
        if not asked.any():
            return super().__call__(logits, ids, asked, smoothing)
        B, T, V = logits.shape
        places = np.flatnonzero(asked)
        said = ops.index(ops.reshape(logits, (1, B * T, V)), (slice(None), places))
        few = ids.reshape(1, -1)[:, places]
        return super().__call__(said, few, np.ones(few.shape, bool), smoothing)


@variant("M9")
class output_scaled_by_its_weights(Logits):
    """projection_scale multiplies the weights and not what they read."""

    def scaled(self, x: Var) -> Var:
        return x

    def weight(self, p: Scope) -> Var:
        return ops.scale(super().weight(p), self.config.projection_scale)


@variant("M9")
class buckets_as_a_product(Relative):
    """The bias is a product of the table with a column that is 1 in the row of each bucket."""

    def looked_up(self, table: Var, buckets: Array) -> Var:
        rows = np.eye(table.shape[0])[buckets]
        B, T, S = buckets.shape
        flat = ops.matmul(Var(rows.reshape(B * T * S, -1)), table)
        found = ops.reshape(flat, (B, T, S, table.shape[1]))
        return ops.swap(ops.swap(ops.swap(found, -1, -2), -2, -3), 0, 1)
