"""Layer normalisation; the paper's section 3.1 says where it stands. RMSNorm is that of later models.

Shapes: ... any leading axes, D width.
"""

from __future__ import annotations

import numpy as np

from attest.contract import Array, Config

from .layers import Cache, DType, Map


class LayerNorm(Map):
    """y = weight * n + bias with n = (x - mean) / sqrt(variance + eps), over the last axis.

    The variance is the biased one, divided by D; eps keeps the root of a constant row away from zero.
    """

    def __init__(self, width: int, eps: float, dtype: DType) -> None:
        super().__init__()
        self.eps = float(eps)
        self.params["weight"] = np.ones(width, dtype)
        self.params["bias"] = np.zeros(width, dtype)

    def forward(self, x: Array) -> tuple[Array, Cache]:
        normed = x - x.mean(axis=-1, keepdims=True)  # (..., D)
        # In two passes: mean(x^2) - mean(x)^2 cancels when the mean is large.
        variance = np.square(normed).mean(axis=-1, keepdims=True)  # (..., 1)
        root = np.sqrt(variance + self.eps)  # (..., 1)
        normed /= root
        y = normed * self.params["weight"]
        y += self.params["bias"]
        return y, (normed, root)

    def backward(self, dy: Array, cache: Cache) -> Array:
        """With dn = dy * weight: dx = (dn - mean(dn) - n * mean(dn * n)) / root.

        An input moves its own output, and through the mean and the root all outputs of its row. One step of
        x_i moves x_j - mean by [i = j] - 1/D, and the root by (x_i - mean) / (D root) = n_i / D. By the
        quotient rule the slope of n_j along x_i is then ([i = j] - 1/D - n_j n_i / D) / root. Summed over j
        with dn_j, the second term is what goes through the mean, the third what goes through the root.
        """
        normed, root = cache  # (..., D), (..., 1)
        rows = tuple(range(dy.ndim - 1))  # every axis but the last
        self.grads["weight"] += (dy * normed).sum(axis=rows)  # (D,)
        self.grads["bias"] += dy.sum(axis=rows)  # (D,)
        dnormed = dy * self.params["weight"]  # (..., D)
        through_root = normed * (dnormed * normed).mean(axis=-1, keepdims=True)  # (..., D)
        dx: Array = dnormed - dnormed.mean(axis=-1, keepdims=True)
        dx -= through_root
        dx /= root
        return dx


class RMSNorm(Map):
    """y = weight * n with n = x / sqrt(mean(x^2) + eps), over the last axis."""

    def __init__(self, width: int, eps: float, dtype: DType) -> None:
        super().__init__()
        self.eps = float(eps)
        self.params["weight"] = np.ones(width, dtype)

    def forward(self, x: Array) -> tuple[Array, Cache]:
        root = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + self.eps)  # (..., 1)
        normed = x / root  # (..., D)
        return normed * self.params["weight"], (normed, root)

    def backward(self, dy: Array, cache: Cache) -> Array:
        """With dn = dy * weight: dx = (dn - n * mean(dn * n)) / root.

        As for LayerNorm without the mean: one step of x_i moves the root by x_i / (D root) = n_i / D, and so
        n_j by ([i = j] - n_j n_i / D) / root.
        """
        normed, root = cache  # (..., D), (..., 1)
        self.grads["weight"] += (dy * normed).sum(axis=tuple(range(dy.ndim - 1)))  # (D,)
        dnormed = dy * self.params["weight"]  # (..., D)
        dx: Array = (dnormed - normed * (dnormed * normed).mean(axis=-1, keepdims=True)) / root
        return dx


def norm_of(config: Config, dtype: DType) -> LayerNorm | RMSNorm:
    """The norm that a config names, of its width."""
    kind = RMSNorm if config.norm_kind == "rms" else LayerNorm
    return kind(config.d_model, config.norm_eps, dtype)
