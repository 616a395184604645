"""Tokens that are hidden from a masked language model: section 3.1 of https://arxiv.org/abs/1810.04805.

Shapes: B batch, T length, K special ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference.parts.part import Part, function
from attest.reference.tape import Array
from attest.reference.validation import check_id, check_size

if TYPE_CHECKING:
    from attest.reference.assembly import Parts

RATE = 0.15
HIDDEN, RANDOM = 0.8, 0.1  # of the chosen tokens; the rest stay as they are


class TokenMasking(Part):
    """Each ordinary token is chosen by itself; then it is hidden, made another one or left."""

    def rng(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def ordinary(self, vocabulary: int, mask_id: int, special: Array) -> Array:
        """The ids that may be chosen and drawn: neither special nor the mask itself."""
        return np.setdiff1d(np.arange(vocabulary), [*special.tolist(), mask_id])

    def eligible(self, ids: Array, ordinary: Array) -> Array:
        """(B, T)."""
        return np.isin(ids, ordinary)

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        """(B, T)."""
        chosen: Array = eligible & (rng.random(eligible.shape) < rate)
        return chosen

    def fates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """(B, T) twice: where a chosen token is hidden, and where it becomes another."""
        share = rng.random(shape)
        return share < HIDDEN, (share >= HIDDEN) & (share < HIDDEN + RANDOM)

    def drawn(self, ordinary: Array, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """(B, T): ordinary ids, each as likely as another."""
        drawn: Array = rng.choice(ordinary, shape) if len(ordinary) else np.zeros(shape, np.int64)
        return drawn

    def masked(
        self, ids: Array, chosen: Array, mask_id: int, ordinary: Array, rng: np.random.Generator
    ) -> Array:
        """(B, T): the new ids."""
        hidden, replaced = self.fates(rng, ids.shape)
        drawn = self.drawn(ordinary, rng, ids.shape)
        masked: Array = np.where(chosen & hidden, mask_id, np.where(chosen & replaced, drawn, ids))
        return masked

    def marked(self, ids: Array, masked: Array, chosen: Array) -> Array:
        """(B, T): 1 where the model will be asked."""
        return chosen.astype(np.int64)

    def __call__(
        self, ids: Array, mask_id: int, vocabulary: int, special: Array, seed: int, rate: float
    ) -> Array:
        """(2, B, T)."""
        rng, ordinary = self.rng(seed), self.ordinary(vocabulary, mask_id, special)
        chosen = self.chosen(self.eligible(ids, ordinary), rate, rng)
        masked = self.masked(ids, chosen, mask_id, ordinary, rng)
        return np.stack([masked, self.marked(ids, masked, chosen)]).astype(np.int64)


@function("mask_tokens")
def _mask_tokens(
    parts: Parts, ids: Array, mask_id: int, vocabulary: int, special: Array, seed: int, rate: float = RATE
) -> Array:
    check_size("vocabulary", vocabulary)
    check_id("mask_id", mask_id, vocabulary)
    ids, special = np.asarray(ids), np.asarray(special, np.int64)
    for name, given in (("ids", ids), ("special", special)):
        if given.size and not 0 <= given.min() <= given.max() < vocabulary:
            raise ValueError(f"{name} hold an id outside the vocabulary; use ids from 0 to {vocabulary - 1}")
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate={rate!r} must be from 0 to 1; give the share of tokens to choose")
    return parts.token_masking(ids, mask_id, vocabulary, special, seed, rate)
