"""The pieces with parameters: a tree of layers, the linear map, layer normalisation, dropout, feed-forward.

Shapes: B batch, T positions, D width, F inner width. Each `forward` returns its output and a cache; each
`backward` takes the gradient of the output and that cache, adds to `grads`, returns that of the input.
"""

import math

import numpy as np

from .activation import ACTIVATIONS
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
    """y = x W^T + b, W (out, in), starting Xavier-uniform with a zero bias.

    With `tied_to` the weight is that of another layer, which also receives its gradient.
    """

    def __init__(self, inputs, outputs, bias, dtype, rng, tied_to=None):
        super().__init__()
        self.holder = self if tied_to is None else tied_to
        if tied_to is None:
            limit = math.sqrt(6 / (inputs + outputs))
            self.params["weight"] = rng.uniform(-limit, limit, (outputs, inputs)).astype(dtype)
        if bias:
            self.params["bias"] = np.zeros(outputs, dtype)

    def forward(self, x):
        y = x @ self.holder.params["weight"].T
        return (y + self.params["bias"] if "bias" in self.params else y), x

    def backward(self, dy, x):
        rows, columns = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1]).T
        # A row without gradient adds nothing, even if junk behind a mask made it nan.
        self.holder.grads["weight"] += mix(columns, columns != 0, rows)
        if "bias" in self.params:
            self.grads["bias"] += columns.sum(axis=-1)
        return dy @ self.holder.params["weight"]


class LayerNorm(Layer):
    """weight * (x - mean) / sqrt(variance + eps) + bias over the last axis; the biased variance."""

    def __init__(self, config, dtype):
        super().__init__()
        self.eps = float(config.norm_eps)
        self.params["weight"] = np.ones(config.d_model, dtype)
        self.params["bias"] = np.zeros(config.d_model, dtype)

    def forward(self, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        # In two passes: mean(x^2) - mean(x)^2 cancels when the mean is large.
        root = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + self.eps)
        normed = centred / root
        return normed * self.params["weight"] + self.params["bias"], (normed, root)

    def backward(self, dy, cache):
        """The input moves the output, the mean and the root; each subtracts its share."""
        normed, root = cache
        self.grads["weight"] += (dy * normed).reshape(-1, dy.shape[-1]).sum(axis=0)
        self.grads["bias"] += dy.reshape(-1, dy.shape[-1]).sum(axis=0)
        d = dy * self.params["weight"]
        through_mean = d.mean(axis=-1, keepdims=True)
        through_root = normed * (d * normed).mean(axis=-1, keepdims=True)
        return (d - through_mean - through_root) / root


def dropout_forward(x, rate, rng):
    """Inverted: an entry is zero with probability `rate`, else divided by 1 - rate. Off without rng."""
    if rng is None or rate == 0:
        return x, None
    factor = (rng.random(x.shape) >= rate).astype(x.dtype) / (1 - rate)
    return x * factor, factor


def dropout_backward(dy, factor):
    return dy if factor is None else dy * factor


class FeedForward(Layer):
    """outer(act(inner(x))) at every position (section 3.3); the inner width is 4 D unless the config says."""

    def __init__(self, config, dtype, rng):
        super().__init__()
        d, inner = config.d_model, config.inner_width
        self.act, self.slope = ACTIVATIONS[config.activation]
        self.children["inner"] = Linear(d, inner, config.bias, dtype, rng)
        self.children["outer"] = Linear(inner, d, config.bias, dtype, rng)

    def forward(self, x):
        h, cache_in = self.children["inner"].forward(x)  # (B, T, F)
        y, cache_out = self.children["outer"].forward(self.act(h))
        return y, (cache_in, h, cache_out)

    def backward(self, dy, cache):
        cache_in, h, cache_out = cache
        dh = self.children["outer"].backward(dy, cache_out) * self.slope(h)
        return self.children["inner"].backward(dh, cache_in)
