"""What the model is asked for, and how far it is from that.

Shapes: B batch, T target length, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Shift(Part):
    """From a target to what the decoder reads and what it is asked for."""

    def __call__(self, target: Array) -> tuple[Array, Array]:
        """BOS a b EOS: the decoder reads BOS a b and is asked for a b EOS."""
        return target[:, :-1], target[:, 1:]


class Loss(Part):
    """Label-smoothed cross-entropy, the mean over all targets that are not padding: section 5.4."""

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

    def __call__(self, logits: Var, labels: Array, smoothing: float) -> Var:
        return self.reduce_losses(self.token_losses(logits, labels, smoothing), self.counted(labels))


@formula("loss")
def _loss(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"loss": parts.loss(inputs["logits"], inputs["labels"], parts.config.label_smoothing)}


class TextLoss(Part):
    """The loss of a language model: the logits at a token against the token that follows."""

    def shifted(self, logits: Var, ids: Array) -> tuple[Var, Array]:
        """What says something of a token that follows, (B, T - 1, V), and those tokens, (B, T - 1)."""
        return ops.index(logits, (slice(None), slice(None, -1))), ids[:, 1:]

    def __call__(self, logits: Var, ids: Array, smoothing: float) -> Var:
        said, following = self.shifted(logits, ids)
        return self.parts.loss(said, following, smoothing)


@formula("language_model_loss")
def _language_model_loss(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    smoothing = parts.config.label_smoothing
    return {"loss": parts.text_loss(inputs["logits"], np.asarray(inputs["ids"]), smoothing)}


class MaskedLoss(Part):
    """The loss of a masked language model: at each token that was chosen, against the token itself."""

    def asked(self, ids: Array, masked: Array, chosen: Array) -> Array:
        """(B, T): what was chosen, whether it was replaced or left; padding never."""
        asked: Array = (chosen != 0) & (ids != self.config.pad_id)
        return asked

    def __call__(self, logits: Var, ids: Array, asked: Array, smoothing: float) -> Var:
        return self.parts.loss.reduce_losses(self.parts.loss.token_losses(logits, ids, smoothing), asked)


@formula("masked_language_model_loss")
def _masked_language_model_loss(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    ids, masked, chosen = (np.asarray(inputs[name]) for name in ("ids", "masked", "chosen"))
    asked = parts.masked_loss.asked(ids, masked, chosen)
    return {"loss": parts.masked_loss(inputs["logits"], ids, asked, parts.config.label_smoothing)}
