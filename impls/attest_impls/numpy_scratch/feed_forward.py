"""The position-wise feed-forward network (section 3.3).

Shapes: B batch, T positions, D width, F inner width.
"""

from __future__ import annotations

from attest.contract import Array, Config

from .activation import ACTIVATIONS
from .layers import Cache, DType, Linear, Map, Random


class FeedForward(Map):
    """outer(act(inner(x))) at every position; the inner width is 4 D unless the config says.

    With a gate: outer(act(gate(x)) * inner(x)). Only the gate is activated.
    """

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        D, F = config.d_model, config.inner_width
        self.activation = ACTIVATIONS[config.activation]()
        self.gate = self.child("gate", Linear(D, F, config.bias, dtype, rng)) if config.gated else None
        self.inner = self.child("inner", Linear(D, F, config.bias, dtype, rng))
        self.outer = self.child("outer", Linear(F, D, config.bias, dtype, rng))

    def forward(self, x: Array) -> tuple[Array, Cache]:
        h, inner = self.inner.forward(x)  # (B, T, F)
        f, features = self.features(x, h)  # (B, T, F)
        y, outer = self.outer.forward(f)  # (B, T, D)
        return y, (inner, features, outer)

    def backward(self, dy: Array, cache: Cache) -> Array:
        """x is read by the inner map and by the gate: its gradient is the sum."""
        inner, features, outer = cache
        df = self.outer.backward(dy, outer)  # (B, T, F)
        dh, through_gate = self.features_backward(df, features)  # (B, T, F), (B, T, D)
        dx = self.inner.backward(dh, inner)  # (B, T, D)
        return dx if through_gate is None else dx + through_gate

    def features(self, x: Array, h: Array) -> tuple[Array, Cache]:
        """act(h), or act(gate(x)) * h."""
        if self.gate is None:
            return self.activation.forward(h)
        g, gate = self.gate.forward(x)  # (B, T, F)
        a, activated = self.activation.forward(g)  # (B, T, F)
        return a * h, (a, h, activated, gate)

    def features_backward(self, df: Array, cache: Cache) -> tuple[Array, Array | None]:
        """Of h, and of x through the gate. By the product rule dh = df * a and da = df * h."""
        if self.gate is None:
            return self.activation.backward(df, cache), None
        a, h, activated, gate = cache
        dg = self.activation.backward(df * h, activated)  # (B, T, F)
        return df * a, self.gate.backward(dg, gate)  # (B, T, F), (B, T, D)
