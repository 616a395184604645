"""The position-wise feed-forward network (section 3.3).

Shapes: B batch, T positions, D width, F inner width.
"""

from __future__ import annotations

from attest.contract import Array, Config

from .activation import ACTIVATIONS
from .layers import Cache, DType, Linear, Map, Random


class FeedForward(Map):
    """outer(act(inner(x))) at every position; the inner width is 4 D unless the config says."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        D, F = config.d_model, config.inner_width
        self.activation = ACTIVATIONS[config.activation]()
        self.inner = self.child("inner", Linear(D, F, config.bias, dtype, rng))
        self.outer = self.child("outer", Linear(F, D, config.bias, dtype, rng))

    def forward(self, x: Array) -> tuple[Array, Cache]:
        h, inner = self.inner.forward(x)  # (B, T, F)
        a, activated = self.activation.forward(h)  # (B, T, F)
        y, outer = self.outer.forward(a)  # (B, T, D)
        return y, (inner, activated, outer)

    def backward(self, dy: Array, cache: Cache) -> Array:
        inner, activated, outer = cache
        da = self.outer.backward(dy, outer)  # (B, T, F)
        dh = self.activation.backward(da, activated)  # (B, T, F)
        return self.inner.backward(dh, inner)  # (B, T, D)
