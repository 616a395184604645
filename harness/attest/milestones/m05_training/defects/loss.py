"""Defects of the loss and of label smoothing. Shapes: logits (B, T, V), labels and losses (B, T)."""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.tape import Array, Var, detach, node
from attest.reference.training.loss import Loss


@defect("M5.3", "M5.3a")
class pads_counted(Loss):
    """Padding is a target like any other."""

    def counted(self, labels: Array) -> Array:
        return np.ones_like(labels, bool)


@defect("M5.3")
class mean_over_all_positions(Loss):
    """The sum over real tokens is divided by the number of all positions."""

    def reduce_losses(self, losses: Var, counted: Array) -> Var:
        return ops.scale(ops.total(ops.where(counted, losses, 0.0)), 1.0 / counted.size)


@defect("M5.3")
class loss_is_a_sum(Loss):
    """The sum over real tokens is not divided at all."""

    def reduce_losses(self, losses: Var, counted: Array) -> Var:
        return ops.total(ops.where(counted, losses, 0.0))


@defect("M5.3", "M5.3a")
class ignore_index_not_pad(Loss):
    """The id left out is a constant and not pad_id."""

    def counted(self, labels: Array) -> Array:
        counted: Array = labels != 0
        return counted


@defect("M5.3", "M5.3a")
class double_softmax(Loss):
    """The loss takes the softmax of probabilities."""

    def token_losses(self, logits: Var, labels: Array, smoothing: float) -> Var:
        return super().token_losses(ops.softmax(logits), labels, smoothing)


@defect("M5.3")
class mean_of_means(Loss):
    """Each row is averaged first, then the rows."""

    def reduce_losses(self, losses: Var, counted: Array) -> Var:
        share = counted / np.maximum(counted.sum(-1, keepdims=True), 1)
        rows = max(int(counted.any(-1).sum()), 1)
        return ops.scale(ops.total(ops.scale(ops.where(counted, losses, 0.0), share)), 1.0 / rows)


@defect("M5.3")
class loss_overflows(Loss):
    """log(exp(x) / sum(exp(x))) as it is written."""

    def token_losses(self, logits: Var, labels: Array, smoothing: float) -> Var:
        x = np.exp(logits.value)
        p = x / x.sum(-1, keepdims=True)
        naive = ops.elementwise(logits, np.log(p), 1 - p)
        wanted = self.target_distribution(labels, logits.shape[-1], smoothing)
        return ops.scale(ops.sum_last(ops.scale(naive, wanted)), -1.0)


@defect("M5.3")
class nan_for_padding_only(Loss):
    """0 / 0 where every label is padding."""

    def reduce_losses(self, losses: Var, counted: Array) -> Var:
        tokens = int(counted.sum())
        return ops.scale(super().reduce_losses(losses, counted), 1.0 if tokens else np.nan)


@defect("M5.3")
class ends_do_not_count(Loss):
    """The last real token of each row is left out with the padding."""

    def counted(self, labels: Array) -> Array:
        real = super().counted(labels)
        last = real & (np.cumsum(real[:, ::-1], 1)[:, ::-1] == 1)
        counted: Array = real & ~last
        return counted


@defect("M5.3a")
class gradient_of_one(Loss):
    """Whatever gradient reaches the loss is taken for 1."""

    def reduce_losses(self, losses: Var, counted: Array) -> Var:
        mean = super().reduce_losses(losses, counted)
        return node(mean.value, (mean,), lambda g: (np.ones_like(g),), mean.variance)


@defect("M5.3a")
class gradient_of_the_sum(Loss):
    """The value is the mean, the gradient that of the sum."""

    def reduce_losses(self, losses: Var, counted: Array) -> Var:
        total = ops.total(ops.where(counted, losses, 0.0))
        return ops.add(total, detach(ops.sub(super().reduce_losses(losses, counted), total)))


@defect("M5.3a")
class padding_is_taught(Loss):
    """The value leaves padding out, the gradient does not."""

    def reduce_losses(self, losses: Var, counted: Array) -> Var:
        mean = super().reduce_losses(losses, counted)
        everywhere = ops.scale(ops.total(losses), 1.0 / max(int(counted.sum()), 1))
        return ops.add(everywhere, detach(ops.sub(mean, everywhere)))


@defect("M5.7")
class smoothing_counts_pads(Loss):
    """The uniform part is averaged over padding too."""

    def __call__(self, logits: Var, labels: Array, smoothing: float) -> Var:
        plain = super().__call__(logits, labels, 0.0)
        if not smoothing:
            return plain
        uniform = ops.scale(ops.sum_last(ops.log_softmax(logits)), -1.0 / logits.shape[-1])
        spread = ops.scale(ops.total(uniform), smoothing / labels.size)
        return ops.add(ops.scale(plain, 1.0 - smoothing), spread)


@defect("M5.7")
class smoothing_not_a_distribution(Loss):
    """All of the label's mass stays, and e / V comes on top."""

    def target_distribution(self, labels: Array, classes: int, smoothing: float) -> Array:
        onehot: Array = labels[..., None] == np.arange(classes)
        return onehot + smoothing / classes


@defect("M5.7")
class smoothing_leaves_out_the_label(Loss):
    """e / (V - 1) on the other classes, so that the label keeps exactly 1 - e."""

    def target_distribution(self, labels: Array, classes: int, smoothing: float) -> Array:
        onehot: Array = labels[..., None] == np.arange(classes)
        return np.where(onehot, 1.0 - smoothing, smoothing / (classes - 1))


@defect("M5.7")
class smoothing_over_two_fewer(Loss):
    """The smoothed mass is spread over V - 2 classes, padding and label left out, and padding gets none."""

    def target_distribution(self, labels: Array, classes: int, smoothing: float) -> Array:
        onehot: Array = labels[..., None] == np.arange(classes)
        wanted = np.where(onehot, 1.0 - smoothing, smoothing / (classes - 2))
        wanted[..., self.config.pad_id] = 0.0
        return wanted


@defect("M5.7")
class smoothing_ignored(Loss):
    """The option is read and not used."""

    def target_distribution(self, labels: Array, classes: int, smoothing: float) -> Array:
        return super().target_distribution(labels, classes, 0.0)
