"""Defects of masks: fills, polarity, axes, combination, the causal triangle, queries that see nothing.

Shapes: q (..., T, d), k and v (..., S, d); a mask is True where a query may attend.
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.implementation import ReferenceImplementation
from attest.reference.parts.attention import Attention
from attest.reference.parts.masks import Masks
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var, node


class Filled(Attention):
    """Hidden scores are replaced by a number, and the softmax does the rest."""

    fill = -1e9

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is None:
            return super().weights_from(scores, None, where)
        weights = super().weights_from(ops.where(allowed, scores, self.fill), None, where)
        return ops.where(_sighted(allowed), weights, 0.0)


@defect("M1.4")
class fill_minus_10(Filled):
    """Hidden scores become -10, which ordinary scores come near."""

    fill = -10.0


@defect("M1.4")
class fill_minus_100(Filled):
    """Hidden scores become -100, which large scores pass."""

    fill = -100.0


@defect("M1.4")
class fill_minus_1e4(Filled):
    """Hidden scores become -10000, so that they win where all visible ones are lower."""

    fill = -1e4


@defect("M1.4")
class fill_with_zero(Filled):
    """Hidden scores become 0."""

    fill = 0.0


@defect("M1.4")
class hidden_scores_lowered_by_1e4(Attention):
    """-10000 is added to hidden scores, which a large hidden score outweighs."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        lowered = scores if allowed is None else ops.add(scores, np.where(allowed, 0.0, -1e4))
        weights = super().weights_from(lowered, None, where)
        return weights if allowed is None else ops.where(_sighted(allowed), weights, 0.0)


@defect("M1.4", "M1.5")
class mask_added_as_zero_and_one(Attention):
    """The boolean mask is added to the scores as 0 and 1."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        moved = scores if allowed is None else ops.add(scores, allowed.astype(np.float64))
        return super().weights_from(moved, None, where)


@defect("M1.4", "M1.5")
class mask_multiplies_scores(Attention):
    """Scores are multiplied by the mask, which makes hidden ones 0."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        moved = scores if allowed is None else ops.scale(scores, allowed.astype(np.float64))
        return super().weights_from(moved, None, where)


@defect("M1.11")
class one_column_hides_one_key(Attention):
    """A mask whose last axis is 1 is read for the first key and no other."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        keys = scores.shape[-1]
        if allowed is not None and allowed.shape[-1] == 1:
            allowed = allowed | (np.arange(keys) > 0)
        return super().weights_from(scores, allowed, where)


@defect("M1.3", "M1.4")
class mask_after_softmax(Attention):
    """The mask multiplies the weights, after the softmax."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        weights = super().weights_from(scores, None, where)
        return weights if allowed is None else ops.where(allowed, weights, 0.0)


@defect("M1.4")
class renormalised_after_softmax(Attention):
    """Hidden weights are zeroed after the softmax and the rest divided by their sum, which may be 0."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        weights = super().weights_from(scores, None, where)
        if allowed is None:
            return weights
        kept = np.where(allowed, weights.value, 0.0)
        total = kept.sum(-1, keepdims=True)
        p = kept / np.where(_sighted(allowed), total, 1.0)
        return node(p, (scores,), lambda g: (p * (g - (g * p).sum(-1, keepdims=True)),))


@defect("M1.4")
class maximum_of_hidden_scores_too(Attention):
    """The maximum that is subtracted is taken over hidden keys as well, so that visible ones underflow."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is None:
            return super().weights_from(scores, None, where)
        raised = np.exp(scores.value - scores.value.max(-1, keepdims=True)) * allowed
        total = raised.sum(-1, keepdims=True)
        p = raised / np.where(_sighted(allowed), total, 1.0)
        return node(p, (scores,), lambda g: (p * (g - (g * p).sum(-1, keepdims=True)),))


@defect("M1.4", "M1.6")
class mask_ignored(Masks):
    """The mask is accepted and not used."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        return super().combine_masks(None, causal)


@defect("M1.4", "M1.6")
class polarity_flipped(Masks):
    """True is taken to mean hidden."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        flipped = None if mask is None else ~np.asarray(mask).astype(bool)
        return super().combine_masks(flipped, causal)


@defect("M1.4")
class mask_on_queries(Masks):
    """Where there are as many queries as keys, the padding mask hides queries instead of keys."""

    def allowed(self, where: Where, T: int, S: int) -> Array | None:
        mask = where.mask
        if mask is None or mask.ndim == 2 or mask.shape[-2] != 1:
            return super().allowed(where, T, S)
        turned = where.but(mask=mask.swapaxes(-1, -2))
        return super().allowed(turned, T, S) if S in (1, T) else None


@defect("M1.4")
class integer_mask_ignored(Masks):
    """A mask that is not boolean is passed over."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        return super().combine_masks(None if mask is None or mask.dtype != bool else mask, causal)


@defect("M1.4a")
class nan_through_zero_weight(Attention):
    """A weight of zero is multiplied with a hidden NaN or infinity, which gives NaN."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        return ops.matmul(weights, v)


@defect("M1.4b")
class pad_starts_late(Masks):
    """The first padded position still counts as real."""

    def length_mask(self, lengths: Array, size: int) -> Array:
        return super().length_mask(np.asarray(lengths) + 1, size)


@defect("M1.4b")
class length_mask_inverted(Masks):
    """True marks padding."""

    def length_mask(self, lengths: Array, size: int) -> Array:
        return ~super().length_mask(lengths, size)


@defect("M1.4b")
class length_of_the_longest_row(Masks):
    """Every row gets the length of the longest."""

    def length_mask(self, lengths: Array, size: int) -> Array:
        return super().length_mask(np.full_like(lengths, np.max(lengths)), size)


@defect("M1.14c")
class lengths_are_not_looked_at(Masks):
    """A length beyond the size is cut off, and a negative one hides its row."""

    def check_lengths(self, lengths: Array, size: int) -> None:
        pass


@defect("M1.14c")
class sizes_are_not_looked_at(Masks):
    """A negative number of queries gives a mask without rows."""

    def check_sizes(self, T: int, S: int) -> None:
        pass


@defect("M1.14c")
class axes_of_ids_are_not_looked_at(Masks):
    """Ids of any rank give a mask of some rank."""

    def check_rows(self, ids: Array) -> None:
        pass


@defect("M1.4c")
class pad_id_hardcoded(Masks):
    """Padding is taken to be id 0."""

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return super().padding_mask(ids, 0)


@defect("M1.4c")
class padding_mask_inverted(Masks):
    """True marks padding."""

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return ~super().padding_mask(ids, pad_id)


@defect("M1.4c")
class pads_counted_as_a_tail(Masks):
    """Pads are counted and hidden at the end of the row, wherever they stand."""

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return self.length_mask((ids != pad_id).sum(-1), ids.shape[1])


@defect("M1.5", "M1.5a")
class causal_off_by_one(Masks):
    """Each query also sees the next key."""

    def causal_allowed(self, T: int, S: int) -> Array:
        return np.asarray(np.arange(S)[None, :] <= np.arange(T)[:, None] + (S - T) + 1)


@defect("M1.5", "M1.5a")
class causal_excludes_diagonal(Masks):
    """A query does not see its own position."""

    def causal_allowed(self, T: int, S: int) -> Array:
        return np.asarray(np.arange(S)[None, :] < np.arange(T)[:, None] + (S - T))


@defect("M1.5", "M1.5a")
class causal_transposed(Masks):
    """The triangle is upper: each query sees itself and the future."""

    def causal_allowed(self, T: int, S: int) -> Array:
        return np.asarray(np.arange(S)[None, :] >= np.arange(T)[:, None] + (S - T))


@defect("M1.5", "M1.5a")
class causal_top_left_when_T_ne_S(Masks):
    """The triangle starts at the first key, so that a cached step sees only that."""

    def causal_allowed(self, T: int, S: int) -> Array:
        return np.asarray(np.arange(S)[None, :] <= np.arange(T)[:, None])


@defect("M1.5")
class causal_ignored(Masks):
    """`causal` is accepted and not used."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        return super().combine_masks(mask, None)


@defect("M1.5")
class future_values_leak(Attention):
    """A small share of the mean of all values is added, those of the future included."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        mean = Var(np.full((*v.shape[:-2], weights.shape[-2], v.shape[-2]), 1e-4 / v.shape[-2]))
        return ops.add(super().mix(weights, v, where), ops.matmul(mean, v))


@defect("M1.5a")
class causal_mask_kept_by_queries(ReferenceImplementation):
    """The causal mask is kept by the number of queries and returned whatever the number of keys."""

    def causal_mask(self, T: int, S: int) -> Array:
        if not hasattr(self, "_kept"):
            self._kept: dict[int, Array] = {}
        return self._kept.setdefault(T, self.call("causal_mask", T, S))


@defect("M1.6")
class combined_by_or(Masks):
    """A key is visible where either mask allows it."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        if mask is None or causal is None:
            return super().combine_masks(mask, causal)
        return np.asarray(mask.astype(bool) | causal)


@defect("M1.6")
class causal_replaces_the_mask(Masks):
    """With causal attention the mask is passed over."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        return super().combine_masks(mask if causal is None else None, causal)


@defect("M1.6")
class additive_masks_by_max(Masks):
    """Masks of 0 and minus infinity are combined by their maximum instead of their minimum."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        if mask is None or causal is None:
            return super().combine_masks(mask, causal)
        added = [np.where(m.astype(bool), 0.0, -np.inf) for m in (mask, causal)]
        return np.asarray(np.maximum(*added) == 0)


@defect("M1.6")
class batch_mask_on_wrong_axis(Attention):
    """The mask of the batch lands on the axis after it where both have one length."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        fits = (
            where.mask is not None
            and where.mask.ndim == q.ndim
            and q.shape[0] == q.shape[1]
            and where.mask.shape[1] == 1
        )
        return super().__call__(
            q,
            k,
            v,
            where.but(mask=where.mask.swapaxes(0, 1) if where.mask is not None and fits else where.mask),
        )


@defect("M1.6")
class stale_mask_cache(Masks):
    """The combined mask is kept by shape and used for the next call of that shape."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        if not hasattr(self, "_kept"):
            self._kept: dict[object, Array | None] = {}
        key = tuple(None if m is None else m.shape for m in (mask, causal))
        return self._kept.setdefault(key, super().combine_masks(mask, causal))


@defect("M1.6")
class mask_over_heads_repeated(Masks):
    """A mask with a head axis is reduced to its first head."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        if mask is not None and mask.ndim == 4:
            mask = mask[:, :1]
        return super().combine_masks(mask, causal)


@defect("M1.11", "M1.11a")
class nan_on_blind_row(Attention):
    """A query that sees nothing divides zero by zero."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        weights = super().weights_from(scores, allowed, where)
        return weights if allowed is None else ops.scale(weights, _nan_where_blind(allowed))


@defect("M1.11")
class mean_of_v_on_blind_row(Attention):
    """With a finite fill a query that sees nothing gets the mean of the hidden values."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is None:
            return super().weights_from(scores, None, where)
        return super().weights_from(ops.where(allowed, scores, -1e9), None, where)


@defect("M1.11")
class blind_row_sees_everything(Attention):
    """With a large number subtracted from all scores, a query that sees nothing attends as if unmasked."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is not None:
            allowed = allowed | ~allowed.any(-1, keepdims=True)
        return super().weights_from(scores, allowed, where)


@defect("M1.11a")
class nan_gradient_on_blind_row(Attention):
    """The NaN of a blind row is replaced after the softmax, and comes back in the gradient."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is None:
            return super().weights_from(scores, None, where)
        spoiled = _nan_where_blind(allowed)
        return super().weights_from(node(scores.value, (scores,), lambda g: (g * spoiled,)), allowed, where)


def _nan_where_blind(allowed: Array) -> Array:
    return np.where(_sighted(allowed), 1.0, np.nan)


def _sighted(allowed: Array) -> Array:
    """Queries that see a key, (..., T, 1)."""
    return np.asarray(allowed.any(-1, keepdims=True))
