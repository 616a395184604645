"""Encoder and decoder layers and their stacks (section 3.1), with the norm after or before each sublayer.

Shapes: B batch, T target positions, S source positions, D width, H heads, d = D / H, L capacity of a cache.

"post", as in the paper, is LN(x + f(x)): each norm stands on the residual path, so the gradient of a low
layer passes through every norm above it, and a deep stack needs a warmup. "pre" is x + f(LN(x)): the residual
path runs from top to bottom untouched, and one norm after the stack brings its sum back to unit size.

In the backward passes, what was read twice has two gradients, and they are added: a residual connection reads
x for the sum and for the sublayer, self-attention reads its input for queries and for keys and values.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from attest.contract import Array, Config

from .feed_forward import FeedForward
from .layers import Cache, Dropout, DType, Layer, Random
from .masks import Mask, both, causal_mask
from .multi_head import MultiHeadAttention
from .norm import LayerNorm, RMSNorm, norm_of


class Residual:
    """What stands around a sublayer f: h = enter(x), y = f(h), output = leave(x, y).

    x, h, y and output have one shape, (B, T, D); so have their gradients.
    """

    def __init__(self, norm: LayerNorm | RMSNorm, config: Config) -> None:
        self.norm, self.pre, self.dropout = norm, config.norm == "pre", Dropout(config.dropout)

    def enter(self, x: Array) -> tuple[Array, Cache]:
        return self.norm.forward(x) if self.pre else (x, None)

    def enter_backward(self, dh: Array, cache: Cache) -> Array:
        return self.norm.backward(dh, cache) if self.pre else dh

    def leave(self, x: Array, y: Array, rng: Random | None) -> tuple[Array, Cache]:
        dropped, factor = self.dropout.forward(y, rng)
        total = x + dropped
        output, normed = (total, None) if self.pre else self.norm.forward(total)
        return output, (factor, normed)

    def leave_backward(self, doutput: Array, cache: Cache) -> tuple[Array, Array]:
        """Gradients of x, along the residual path alone, and of y.

        A sum passes its gradient on to each of its terms as it is.
        """
        factor, normed = cache
        dtotal = doutput if self.pre else self.norm.backward(doutput, normed)
        return dtotal, self.dropout.backward(dtotal, factor)


class EncoderLayer(Layer):
    """Self-attention, feed-forward. Every x, h and y is (B, S, D)."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        self.self_attention = self.child("self_attention", MultiHeadAttention(config, dtype, rng))
        self.feed_forward = self.child("feed_forward", FeedForward(config, dtype, rng))
        self.around = residuals(self, 2, config, dtype)

    def forward(self, x: Array, visible: Mask, rng: Random | None) -> tuple[Array, Cache]:
        h, entered = self.around[0].enter(x)
        y, _, attended = self.self_attention.forward(h, h, visible)
        x, left = self.around[0].leave(x, y, rng)
        x, fed = feed(self, x, rng)
        return x, (entered, attended, left, fed)

    def backward(self, dx: Array, cache: Cache) -> Array:
        """The steps of forward in reverse. Along the residual path dx takes up the share of each sublayer."""
        entered, attended, left, fed = cache
        dx = feed_backward(self, dx, fed)  # (B, S, D)
        dx, dy = self.around[0].leave_backward(dx, left)
        dquery, dkey_value = self.self_attention.backward(dy, attended)
        return dx + self.around[0].enter_backward(dquery + dkey_value, entered)


class DecoderLayer(Layer):
    """Causal self-attention, cross-attention to the memory, feed-forward. Every x, h and y is (B, T, D)."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        self.self_attention = self.child("self_attention", MultiHeadAttention(config, dtype, rng))
        self.cross_attention = self.child("cross_attention", MultiHeadAttention(config, dtype, rng))
        self.feed_forward = self.child("feed_forward", FeedForward(config, dtype, rng))
        self.around = residuals(self, 3, config, dtype)

    def forward(
        self, x: Array, memory: Array, visible: Mask, memory_visible: Mask, rng: Random | None
    ) -> tuple[Array, Cache]:
        """Queries of the cross-attention come from x (B, T, D), its keys and values from memory (B, S, D)."""
        causal = both(visible, causal_mask(x.shape[1], x.shape[1]))  # (T, T) or (B or 1, 1, T, T)
        h, entered = self.around[0].enter(x)
        y, _, attended = self.self_attention.forward(h, h, causal)
        x, left = self.around[0].leave(x, y, rng)
        h, entered_1 = self.around[1].enter(x)
        y, _, crossed = self.cross_attention.forward(h, memory, memory_visible)
        x, left_1 = self.around[1].leave(x, y, rng)
        x, fed = feed(self, x, rng)
        return x, (entered, attended, left, entered_1, crossed, left_1, fed)

    def backward(self, dx: Array, cache: Cache) -> tuple[Array, Array]:
        """Gradients of x (B, T, D) and of the memory (B, S, D): the steps of forward in reverse."""
        entered, attended, left, entered_1, crossed, left_1, fed = cache
        dx = feed_backward(self, dx, fed)
        dx, dy = self.around[1].leave_backward(dx, left_1)
        dquery, dmemory = self.cross_attention.backward(dy, crossed)  # (B, T, D), (B, S, D)
        dx = dx + self.around[1].enter_backward(dquery, entered_1)
        dx, dy = self.around[0].leave_backward(dx, left)
        dquery, dkey_value = self.self_attention.backward(dy, attended)
        return dx + self.around[0].enter_backward(dquery + dkey_value, entered), dmemory

    def step(
        self, x: Array, past: Array, length: int, visible: Mask, memory: Array, memory_visible: Mask
    ) -> Array:
        """`forward` for the newest positions x (B, n, D), without dropout and without a gradient.

        `past` (2, B, H, L, d) holds keys and values of the `length` positions before; those of x are written
        behind them. `memory` (2, B, H, S, d) holds those of the source.
        """
        end = length + x.shape[1]
        h, _ = self.around[0].enter(x)
        past[0, :, :, length:end], past[1, :, :, length:end] = self.self_attention.keys_values(h)
        y = self.self_attention.read(h, past[0, :, :, :end], past[1, :, :, :end], visible)
        x, _ = self.around[0].leave(x, y, None)
        h, _ = self.around[1].enter(x)
        y = self.cross_attention.read(h, memory[0], memory[1], memory_visible)
        x, _ = self.around[1].leave(x, y, None)
        return feed(self, x, None)[0]


Block = TypeVar("Block", bound=Layer)


class Fed(Protocol):
    """A block whose last sublayer is a feed-forward network."""

    around: list[Residual]
    feed_forward: FeedForward


def residuals(block: Layer, count: int, config: Config, dtype: DType) -> list[Residual]:
    """One around each sublayer, each with a norm of its own: norm0, norm1, ..."""
    norms = [norm_of(config, dtype) for _ in range(count)]
    return [Residual(block.child(f"norm{i}", norm), config) for i, norm in enumerate(norms)]


def feed(block: Fed, x: Array, rng: Random | None) -> tuple[Array, Cache]:
    """The last sublayer of either block."""
    h, entered = block.around[-1].enter(x)
    y, fed = block.feed_forward.forward(h)
    x, left = block.around[-1].leave(x, y, rng)
    return x, (entered, fed, left)


def feed_backward(block: Fed, dx: Array, cache: Cache) -> Array:
    """The gradient of the x that `feed` took: what passed by the sublayer, and what went through it."""
    entered, fed, left = cache
    dx, dy = block.around[-1].leave_backward(dx, left)
    dh = block.feed_forward.backward(dy, fed)
    return dx + block.around[-1].enter_backward(dh, entered)


class Stack(Layer, Generic[Block]):
    """Layers 0, 1, ... in order, and with "pre" one norm after the last."""

    def __init__(self, layers: list[Block], config: Config, dtype: DType) -> None:
        super().__init__()
        self.layers: list[Block] = [self.child(str(i), layer) for i, layer in enumerate(layers)]
        self.norm = self.child("norm", norm_of(config, dtype)) if config.norm == "pre" else None

    def finish(self, x: Array) -> tuple[Array, Cache]:
        return self.norm.forward(x) if self.norm else (x, None)

    def finish_backward(self, dx: Array, cache: Cache) -> Array:
        return self.norm.backward(dx, cache) if self.norm else dx


class Encoder(Stack[EncoderLayer]):
    """x (B, S, D) through every layer; the loop is over layers, each of which needs the one before."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        layers = [EncoderLayer(config, dtype, rng) for _ in range(config.num_encoder_layers)]
        super().__init__(layers, config, dtype)

    def forward(self, x: Array, visible: Mask, rng: Random | None) -> tuple[Array, Cache]:
        caches = []
        for layer in self.layers:
            x, cache = layer.forward(x, visible, rng)
            caches.append(cache)
        x, finished = self.finish(x)
        return x, (caches, finished)

    def backward(self, dx: Array, cache: Cache) -> Array:
        caches, finished = cache
        dx = self.finish_backward(dx, finished)
        for layer, cache in zip(reversed(self.layers), reversed(caches)):
            dx = layer.backward(dx, cache)
        return dx


class Decoder(Stack[DecoderLayer]):
    """Every layer reads the same memory, so the memory's gradient is the sum over the layers."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        layers = [DecoderLayer(config, dtype, rng) for _ in range(config.num_decoder_layers)]
        super().__init__(layers, config, dtype)

    def forward(
        self, x: Array, memory: Array, visible: Mask, memory_visible: Mask, rng: Random | None
    ) -> tuple[Array, Cache]:
        caches = []
        for layer in self.layers:
            x, cache = layer.forward(x, memory, visible, memory_visible, rng)
            caches.append(cache)
        x, finished = self.finish(x)
        return x, (caches, finished)

    def backward(self, dx: Array, cache: Cache) -> tuple[Array, Array]:
        caches, finished = cache
        dx = self.finish_backward(dx, finished)
        dmemories = []
        for layer, cache in zip(reversed(self.layers), reversed(caches)):
            dx, dmemory = layer.backward(dx, cache)
            dmemories.append(dmemory)
        return dx, sum(dmemories[1:], dmemories[0])
