"""The pieces with parameters: a tree of layers, the linear map, layer normalisation, dropout, feed-forward.

Shapes: B batch, T positions, D width, F inner width. Each `forward` returns its output and a cache; each
`backward` takes the gradient of the output and that cache, adds to `grads`, returns that of the input.
"""

import math

import numpy as np

from .attention import mix


class Layer:
    """Parameters, their gradients, and named children; a child's parameters are named `child.parameter`."""

    def __init__(self):
        self.params, self.grads, self.children = {}, {}, {}

    def owners(self, prefix=""):
        """Canonical name -> (the layer that holds the parameter, its name there)."""
        own = {prefix + name: (self, name) for name in self.params}
        for name, child in self.children.items():
            own |= child.owners(f"{prefix}{name}.")
        return own

    def zero_grads(self):
        for layer, name in self.owners().values():
            layer.grads[name] = np.zeros_like(layer.params[name])


class Linear(Layer):
    """y = x W^T + b, W (out, in), starting Xavier-uniform with a zero bias."""

    def __init__(self, inputs, outputs, bias, dtype, rng):
        super().__init__()
        limit = math.sqrt(6 / (inputs + outputs))
        self.params["weight"] = rng.uniform(-limit, limit, (outputs, inputs)).astype(dtype)
        if bias:
            self.params["bias"] = np.zeros(outputs, dtype)

    def forward(self, x):
        y = x @ self.params["weight"].T
        return (y + self.params["bias"] if "bias" in self.params else y), x

    def backward(self, dy, x):
        rows, columns = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1]).T
        # A row without gradient adds nothing, even if junk behind a mask made it nan.
        self.grads["weight"] += mix(columns, columns != 0, rows)
        if "bias" in self.params:
            self.grads["bias"] += columns.sum(axis=-1)
        return dy @ self.params["weight"]
