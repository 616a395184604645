"""Defects of the loss of a language model. Shapes: logits (B, T, V), ids (B, T)."""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.tape import Array, Var, detach
from attest.reference.training.loss import TextLoss

BOTH = slice(None)


@defect("M9.7")
class text_shifted_twice(TextLoss):
    """The caller shifts and the loss shifts again."""

    def shifted(self, logits: Var, ids: Array) -> tuple[Var, Array]:
        return ops.index(logits, (BOTH, slice(None, -2))), ids[:, 2:]


@defect("M9.7")
class text_not_shifted(TextLoss):
    """The model is asked for the token that it has just read."""

    def shifted(self, logits: Var, ids: Array) -> tuple[Var, Array]:
        return logits, ids


@defect("M9.7")
class text_shifted_the_other_way(TextLoss):
    """The model is asked for the token before."""

    def shifted(self, logits: Var, ids: Array) -> tuple[Var, Array]:
        return ops.index(logits, (BOTH, slice(1, None))), ids[:, :-1]


@defect("M9.7")
class shifted_after_flattening(TextLoss):
    """The last position of a row is asked for the first token of the next."""

    def shifted(self, logits: Var, ids: Array) -> tuple[Var, Array]:
        B, T, V = logits.shape
        flat = ops.reshape(logits, (1, B * T, V))
        return ops.index(flat, (BOTH, slice(None, -1))), ids.reshape(1, -1)[:, 1:]


@defect("M9.7")
class text_rolled(TextLoss):
    """The last position is asked for the first token of its own row."""

    def shifted(self, logits: Var, ids: Array) -> tuple[Var, Array]:
        return logits, np.roll(ids, -1, axis=1)


@defect("M9.7")
class text_padding_counted(TextLoss):
    """Padding that follows is asked for like any token."""

    def __call__(self, logits: Var, ids: Array, smoothing: float) -> Var:
        said, following = self.shifted(logits, ids)
        losses = self.parts.loss.token_losses(said, following, smoothing)
        return self.parts.loss.reduce_losses(losses, np.ones_like(following, bool))


@defect("M9.7")
class text_mean_of_rows(TextLoss):
    """Each row is averaged first, then the rows."""

    def __call__(self, logits: Var, ids: Array, smoothing: float) -> Var:
        said, following = self.shifted(logits, ids)
        losses = self.parts.loss.token_losses(said, following, smoothing)
        counted = self.parts.loss.counted(following)
        share = counted / np.maximum(counted.sum(-1, keepdims=True), 1)
        rows = max(int(counted.any(-1).sum()), 1)
        return ops.scale(ops.total(ops.scale(ops.where(counted, losses, 0.0), share)), 1.0 / rows)


@defect("M9.7")
class ignored_becomes_class_zero(TextLoss):
    """Ignored labels are set to 0 so that they can be looked up, and then counted."""

    def shifted(self, logits: Var, ids: Array) -> tuple[Var, Array]:
        said, following = super().shifted(logits, ids)
        pad = self.config.pad_id
        return said, np.where(following == pad, 0 if pad else 1, following)


@defect("M9.7")
class first_tokens_in_the_divisor(TextLoss):
    """The sum over T - 1 terms is divided by the number of real tokens."""

    def __call__(self, logits: Var, ids: Array, smoothing: float) -> Var:
        asked = int(self.parts.loss.counted(ids[:, 1:]).sum())
        read = int(self.parts.loss.counted(ids).sum())
        return ops.scale(super().__call__(logits, ids, smoothing), asked / max(read, 1))


@defect("M9.7")
class text_not_smoothed(TextLoss):
    """Label smoothing does not reach the loss of language models."""

    def __call__(self, logits: Var, ids: Array, smoothing: float) -> Var:
        return super().__call__(logits, ids, 0.0)


@defect("M9.7")
class last_position_is_taught(TextLoss):
    """The value leaves the last position out, the gradient does not."""

    def __call__(self, logits: Var, ids: Array, smoothing: float) -> Var:
        right = super().__call__(logits, ids, smoothing)
        rolled = self.parts.loss(logits, np.roll(ids, -1, axis=1), smoothing)
        return ops.add(rolled, detach(ops.sub(right, rolled)))


@defect("M9.7")
class nothing_asked_is_nan(TextLoss):
    """0 / 0 where no token follows another."""

    def __call__(self, logits: Var, ids: Array, smoothing: float) -> Var:
        asked = self.parts.loss.counted(ids[:, 1:]).any()
        return ops.scale(super().__call__(logits, ids, smoothing), 1.0 if asked else np.nan)
