"""Defects of the tokens that are hidden, and of the loss over them.

Shapes: ids (B, T), logits (B, T, V).
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.masking import HIDDEN, RANDOM, RATE, TokenMasking
from attest.reference.tape import Array, Var
from attest.reference.training.loss import MaskedLoss


@defect("M9.11")
class pads_masked(TokenMasking):
    """Padding, the first of the special ids, may be chosen."""

    def ordinary(self, vocabulary: int, mask_id: int, special: Array) -> Array:
        return super().ordinary(vocabulary, mask_id, special[1:])


@defect("M9.11")
class specials_masked(TokenMasking):
    """Only padding is left alone; other special ids may be chosen."""

    def eligible(self, ids: Array, ordinary: Array) -> Array:
        return np.ones(ids.shape, bool) if len(ordinary) else np.zeros(ids.shape, bool)


@defect("M9.11")
class random_ids_from_the_whole_vocabulary(TokenMasking):
    """Special ids are among those that a chosen token may become."""

    def drawn(self, ordinary: Array, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.integers(0, max(ordinary, default=0) + 1, shape)


@defect("M9.11")
class rate_per_batch_row(TokenMasking):
    """Whole rows are chosen with the rate."""

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        return eligible & (rng.random((len(eligible), 1)) < rate)


@defect("M9.11")
class one_pattern_for_all_rows(TokenMasking):
    """The same places are chosen in every row."""

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        return eligible & (rng.random(eligible.shape[1:]) < rate)


@defect("M9.11")
class always_first_token(TokenMasking):
    """The first token of a row is always chosen."""

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        chosen = super().chosen(eligible, rate, rng)
        chosen[:, 0] = eligible[:, 0] & (rate > 0)
        return chosen


@defect("M9.11")
class last_place_never_chosen(TokenMasking):
    """The last column is left out, as by range(T - 1)."""

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        chosen = super().chosen(eligible, rate, rng)
        chosen[:, -1] = False
        return chosen


@defect("M9.11")
class one_of_each_row_at_least(TokenMasking):
    """A row in which chance chose nothing gets a token of its own."""

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        chosen = super().chosen(eligible, rate, rng)
        empty = ~chosen.any(axis=1) & eligible.any(axis=1) & (rate > 0)
        chosen[empty, eligible[empty].argmax(axis=1)] = True
        return chosen


@defect("M9.11")
class rate_of_all_places(TokenMasking):
    """The rate is met over all places, so that rows with many special ids lose more of the others."""

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        share = eligible.mean()
        return super().chosen(eligible, min(rate / share, 1.0) if share else rate, rng)


@defect("M9.11")
class masking_rate_ignored(TokenMasking):
    """15 %, whatever is given."""

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        return super().chosen(eligible, RATE, rng)


@defect("M9.11")
class choice_does_not_follow_the_seed(TokenMasking):
    """The seed moves what tokens become, but not which are chosen."""

    def chosen(self, eligible: Array, rate: float, rng: np.random.Generator) -> Array:
        return super().chosen(eligible, rate, np.random.default_rng(0))


@defect("M9.11")
class reseeded_each_call(TokenMasking):
    """Every call begins with the same seed."""

    def rng(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(0)


_kept = np.random.default_rng(7)


@defect("M9.11")
class draws_on_from_the_last_call(TokenMasking):
    """One generator serves all calls; the seed is not read."""

    def rng(self, seed: int) -> np.random.Generator:
        return _kept


@defect("M9.11")
class random_is_mask_id(TokenMasking):
    """What should become another token is hidden as well: nine tenths are."""

    def fates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
        hidden, replaced = super().fates(rng, shape)
        return hidden | replaced, np.zeros(shape, bool)


@defect("M9.11")
class ratio_order(TokenMasking):
    """One tenth is hidden and eight tenths become another token."""

    def fates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
        share = rng.random(shape)
        return share < RANDOM, (share >= RANDOM) & (share < HIDDEN + RANDOM)


@defect("M9.11")
class none_is_left(TokenMasking):
    """Every chosen token is hidden or replaced."""

    def fates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
        hidden, _ = super().fates(rng, shape)
        return hidden, ~hidden


@defect("M9.11")
class fates_drawn_twice(TokenMasking):
    """Ten percent are drawn from the rest of the eighty: eight, two and eighteen percent."""

    def fates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
        hidden, _ = super().fates(rng, shape)
        return hidden, ~hidden & (rng.random(shape) < RANDOM)


@defect("M9.11")
class last_id_never_drawn(TokenMasking):
    """The last ordinary id is never what a token becomes."""

    def drawn(self, ordinary: Array, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return super().drawn(ordinary[:-1] if len(ordinary) > 1 else ordinary, rng, shape)


@defect("M9.11")
class one_random_id_for_all(TokenMasking):
    """One ordinary id is drawn, and every replaced token becomes it."""

    def drawn(self, ordinary: Array, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(super().drawn(ordinary, rng, (1, 1)), shape)


@defect("M9.11")
class replaced_by_the_next_id(TokenMasking):
    """What becomes another token becomes the ordinary id behind it."""

    def masked(
        self, ids: Array, chosen: Array, mask_id: int, ordinary: Array, rng: np.random.Generator
    ) -> Array:
        if not len(ordinary):
            return super().masked(ids, chosen, mask_id, ordinary, rng)
        hidden, replaced = self.fates(rng, ids.shape)
        following = ordinary[(np.searchsorted(ordinary, ids) + 1) % len(ordinary)]
        masked: Array = np.where(chosen & hidden, mask_id, np.where(chosen & replaced, following, ids))
        return masked


@defect("M9.11")
class only_what_changed_is_marked(TokenMasking):
    """A chosen token that was left as it is is not said to be chosen."""

    def marked(self, ids: Array, masked: Array, chosen: Array) -> Array:
        return np.asarray(ids != masked, np.int64)


@defect("M9.11")
class marks_hide_the_others(TokenMasking):
    """1 stands where nothing was chosen."""

    def marked(self, ids: Array, masked: Array, chosen: Array) -> Array:
        return (~chosen).astype(np.int64)


@defect("M9.11")
class masks_in_the_callers_ids(TokenMasking):
    """The new ids are written over those that were given."""

    def masked(
        self, ids: Array, chosen: Array, mask_id: int, ordinary: Array, rng: np.random.Generator
    ) -> Array:
        ids[...] = super().masked(ids, chosen, mask_id, ordinary, rng)
        return ids


@defect("M9.12")
class loss_on_all(MaskedLoss):
    """Every real token counts."""

    def asked(self, ids: Array, masked: Array, chosen: Array) -> Array:
        return super().asked(ids, masked, np.ones_like(chosen))


@defect("M9.12")
class loss_on_replaced_only(MaskedLoss):
    """A chosen token that was left as it is does not count."""

    def asked(self, ids: Array, masked: Array, chosen: Array) -> Array:
        return np.asarray(super().asked(ids, masked, chosen) & (ids != masked))


@defect("M9.12")
class chosen_pads_counted(MaskedLoss):
    """Padding counts where it is marked."""

    def asked(self, ids: Array, masked: Array, chosen: Array) -> Array:
        return np.asarray(chosen != 0)


@defect("M9.12")
class loss_on_what_was_not_chosen(MaskedLoss):
    """The marks are read the other way round."""

    def asked(self, ids: Array, masked: Array, chosen: Array) -> Array:
        return super().asked(ids, masked, 1 - chosen)


@defect("M9.12")
class nan_without_mask(MaskedLoss):
    """The mean of nothing is NaN."""

    def __call__(self, logits: Var, ids: Array, asked: Array, smoothing: float) -> Var:
        found = super().__call__(logits, ids, asked, smoothing)
        return found if asked.any() else ops.scale(found, np.nan)


@defect("M9.12")
class masked_loss_over_all_places(MaskedLoss):
    """The losses of chosen tokens are divided by the number of all places."""

    def __call__(self, logits: Var, ids: Array, asked: Array, smoothing: float) -> Var:
        return ops.scale(super().__call__(logits, ids, asked, smoothing), asked.sum() / asked.size)


@defect("M9.12")
class masked_loss_is_a_mean_of_rows(MaskedLoss):
    """Rows weigh the same, however many of their tokens were chosen."""

    def __call__(self, logits: Var, ids: Array, asked: Array, smoothing: float) -> Var:
        losses = self.parts.loss.token_losses(logits, ids, smoothing)
        rows = np.maximum(asked.sum(axis=1, keepdims=True), 1)
        count = max(int(asked.any(axis=1).sum()), 1)
        return ops.total(ops.scale(ops.where(asked, losses, 0.0), 1.0 / (rows * count)))


@defect("M9.12")
class masked_loss_is_shifted(MaskedLoss):
    """A token is asked for one place early, as in a language model that continues."""

    def __call__(self, logits: Var, ids: Array, asked: Array, smoothing: float) -> Var:
        before = ops.index(logits, (slice(None), slice(None, -1)))
        return super().__call__(before, ids[:, 1:], asked[:, 1:], smoothing)


@defect("M9.12")
class masked_loss_is_not_smoothed(MaskedLoss):
    """label_smoothing is not read."""

    def __call__(self, logits: Var, ids: Array, asked: Array, smoothing: float) -> Var:
        return super().__call__(logits, ids, asked, 0.0)
