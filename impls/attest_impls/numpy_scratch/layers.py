"""What the model is built of: a tree of named parameters, the linear map, dropout.

Shapes: ... any leading axes, I inputs and O outputs of a linear map, N rows.

Every layer keeps to one rule. `forward` returns its output and a cache: whatever the gradient will need.
`backward` takes the gradient of the output and that cache, adds the gradients of its own parameters to
`grads`, and returns the gradient of the input. A name that begins with d is the gradient of what follows: dy
is the derivative of the final number with respect to y, and has the shape of y.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from attest.contract import Array

from .masks import mix

Cache = Any  # what forward hands to its own backward; nobody else looks inside
DType = np.dtype[Any]
Random = np.random.Generator
L = TypeVar("L", bound="Layer")


class Layer:
    """Parameters, their gradients, and named children; a child's parameters are named `child.parameter`."""

    def __init__(self) -> None:
        self.params: dict[str, Array] = {}
        self.grads: dict[str, Array] = {}
        self.children: dict[str, Layer] = {}

    def child(self, name: str, layer: L) -> L:
        """Take a layer in under a name, and hand it back."""
        self.children[name] = layer
        return layer

    def owners(self, prefix: str = "") -> dict[str, tuple[Layer, str]]:
        """Canonical name -> (the layer that holds the parameter, its name there)."""
        own: dict[str, tuple[Layer, str]] = {prefix + name: (self, name) for name in self.params}
        for name, child in self.children.items():
            own |= child.owners(f"{prefix}{name}.")
        return own

    def all_params(self) -> dict[str, Array]:
        """The parameters themselves, not copies, by canonical name."""
        return {name: layer.params[own] for name, (layer, own) in self.owners().items()}

    def all_grads(self) -> dict[str, Array]:
        """The gradients themselves, by canonical name."""
        return {name: layer.grads[own] for name, (layer, own) in self.owners().items()}

    def zero_grads(self) -> None:
        """New zeros: gradients that were handed out before stay as they are."""
        for layer, name in self.owners().values():
            layer.grads[name] = np.zeros_like(layer.params[name])


class Map(Layer):
    """A layer with one array in and one array out."""

    def forward(self, x: Array) -> tuple[Array, Cache]:
        raise NotImplementedError

    def backward(self, dy: Array, cache: Cache) -> Array:
        raise NotImplementedError


class Linear(Map):
    """y = x W^T + b, W (O, I), starting Xavier-uniform with a zero bias.

    With `tied_to` the weight is that of another layer, which also receives its gradient.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        bias: bool,
        dtype: DType,
        rng: Random,
        tied_to: Layer | None = None,
    ) -> None:
        super().__init__()
        self.holder = self if tied_to is None else tied_to
        if tied_to is None:
            limit = math.sqrt(6 / (inputs + outputs))
            self.params["weight"] = rng.uniform(-limit, limit, (outputs, inputs)).astype(dtype)
        if bias:
            self.params["bias"] = np.zeros(outputs, dtype)

    def forward(self, x: Array) -> tuple[Array, Cache]:
        weight = self.holder.params["weight"]  # (O, I)
        rows = x.reshape(-1, x.shape[-1])  # (N, I): one large product instead of one for each sequence
        y = rows @ weight.T  # (N, O)
        if "bias" in self.params:
            y += self.params["bias"]
        return y.reshape(*x.shape[:-1], len(weight)), rows  # (..., O)

    def backward(self, dy: Array, cache: Cache) -> Array:
        """dW_oi = sum over rows of dy_o x_i; dx_i = sum over outputs of dy_o W_oi.

        Of y_o = sum_i x_i W_oi + b_o in every row: W_oi moves y_o by x_i, x_i moves every y_o by W_oi, and
        b_o moves y_o by 1, so that its gradient is the sum of dy_o over the rows.
        """
        rows, weight = cache, self.holder.params["weight"]  # (N, I), (O, I)
        drows = dy.reshape(-1, dy.shape[-1])  # (N, O)
        dweight = drows.T @ rows  # (O, I)
        if not np.isfinite(dweight).all():
            # A row without gradient adds nothing, even if junk behind a mask made it nan.
            dweight = mix(drows.T, drows.T != 0, rows)
        self.holder.grads["weight"] += dweight
        if "bias" in self.params:
            self.grads["bias"] += drows.sum(axis=0)  # (O,)
        return (drows @ weight).reshape(*dy.shape[:-1], weight.shape[1])  # (..., I)


class Dropout(Layer):
    """Inverted: in training an entry is zero with probability `rate`, else divided by 1 - rate.

    The division keeps the expected value, so that nothing has to change when dropout is off.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = float(rate)

    def forward(self, x: Array, rng: Random | None) -> tuple[Array, Cache]:
        """Off without rng. The cache is the factor of each entry."""
        if rng is None or self.rate == 0:
            return x, None
        kept = rng.random(x.shape, x.dtype.type) >= self.rate
        factor = kept * x.dtype.type(1 / (1 - self.rate))
        return x * factor, factor

    def backward(self, dy: Array, cache: Cache) -> Array:
        """y = x * factor, entry by entry, so dx = dy * factor: the factor of forward, not a new draw."""
        return dy if cache is None else dy * cache
