"""Cross-entropy with label smoothing (section 5.4), and its gradient.

Shapes: B batch, T target positions, V vocabulary.
"""

from __future__ import annotations

import numpy as np

from attest.contract import Array

from .layers import Cache, Layer


def log_softmax(logits: Array) -> Array:
    """x - max - log(sum(exp(x - max))): finite whatever the size of the logits."""
    shifted: Array = logits - logits.max(axis=-1, keepdims=True)
    # log(exp(x_i) / sum_j exp(x_j)) = x_i - log(sum_j exp(x_j)), and the largest entry may be taken from all.
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


class CrossEntropy(Layer):
    """The mean over real labels, those that are not padding, of -(sum over classes of wanted * log p).

    `wanted` is 1 - smoothing on the label plus smoothing / V on every class, the label included.
    """

    def __init__(self, pad_id: int | None, smoothing: float = 0.0) -> None:
        super().__init__()
        self.pad_id, self.smoothing = pad_id, float(smoothing)

    def real(self, labels: Array) -> Array:
        """(B, T): True where a label counts; all do where no id is padding."""
        mask: Array = np.ones(labels.shape, bool) if self.pad_id is None else labels != self.pad_id
        return mask

    def forward(
        self, logits: Array, labels: Array, count: int | None = None, real: Array | None = None
    ) -> tuple[Array, Cache]:
        """The sum of the losses divided by `count`, which is the number of real labels unless it is given.

        Who works through a large batch in parts gives the number of the whole: the parts then add up. `real`
        (B, T) says which labels count where padding is not all that does not.
        """
        log_p = log_softmax(logits)  # (B, T, V)
        losses = -np.take_along_axis(log_p, labels[..., None], axis=-1)[..., 0]  # (B, T)
        if self.smoothing:
            losses = (1 - self.smoothing) * losses - self.smoothing * log_p.mean(axis=-1)
        real = self.real(labels) if real is None else real  # (B, T)
        divisor = max(int(real.sum()) if count is None else count, 1)  # padding alone: 0 and not 0 / 0
        # Padding is left out by a choice and not by a factor of zero: 0 * nan is nan.
        loss = np.where(real, losses, 0).sum() / divisor
        return np.asarray(loss, logits.dtype), (log_p, labels, real, divisor)

    def backward(self, dloss: Array | float, cache: Cache) -> Array:
        """dlogits = (p - wanted) / count at real labels, nothing at padding.

        -log p_c = log(sum_j exp(x_j)) - x_c. The first term moves by exp(x_i) / sum_j exp(x_j) = p_i for a
        step of x_i, the second by [i = c]: the slope is p_i - [i = c]. Averaged over the wanted classes c,
        whose shares add up to 1, this is p_i - wanted_i.
        """
        log_p, labels, real, divisor = cache
        dlogits: Array = np.exp(log_p)  # (B, T, V): p
        dlogits -= self.smoothing / log_p.shape[-1]
        # wanted is smoothing / V everywhere, taken above, and 1 - smoothing more at the label.
        at_label = np.take_along_axis(dlogits, labels[..., None], axis=-1) - (1 - self.smoothing)
        np.put_along_axis(dlogits, labels[..., None], at_label, axis=-1)
        dlogits *= dloss / divisor
        dlogits[~real] = 0
        return dlogits
