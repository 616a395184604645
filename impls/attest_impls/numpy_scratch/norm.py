"""Layer normalisation; the paper's section 3.1 says where it stands. RMSNorm is that of later models.

Shapes: ... any leading axes, D width.
"""

from __future__ import annotations

import numpy as np

from attest.contract import Array

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
        root = np.sqrt(variance + self.eps)
        normed /= root
        y = normed * self.params["weight"]
        y += self.params["bias"]
        return y, (normed, root)

    def backward(self, dy: Array, cache: Cache) -> Array:
        """With dn = dy * weight: dx = (dn - mean(dn) - n * mean(dn * n)) / root.

        An input moves its own output, and through the mean and the root all outputs of its row. The second
        term is what goes through the mean, the third what goes through the root.
        """
        normed, root = cache
        every_axis_but_the_last = tuple(range(dy.ndim - 1))
        self.grads["weight"] += (dy * normed).sum(axis=every_axis_but_the_last)
        self.grads["bias"] += dy.sum(axis=every_axis_but_the_last)
        dnormed = dy * self.params["weight"]  # (..., D)
        through_root = normed * (dnormed * normed).mean(axis=-1, keepdims=True)
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

        An input moves its own output, and through the root all outputs of its row: the root moves by
        x dx / (D root) for each input, and n by -n / root for each step of the root.
        """
        normed, root = cache
        self.grads["weight"] += (dy * normed).sum(axis=tuple(range(dy.ndim - 1)))
        dnormed = dy * self.params["weight"]  # (..., D)
        dx: Array = (dnormed - normed * (dnormed * normed).mean(axis=-1, keepdims=True)) / root
        return dx
