"""Encoder and decoder layers and their stacks (section 3.1), with the norm after or before each sublayer.

Shapes: B batch, T target positions, S source positions, D width.

"post", as in the paper, is LN(x + f(x)): each norm stands on the residual path, so the gradient of a low
layer passes through every norm above it, and a deep stack needs a warmup. "pre" is x + f(LN(x)): the residual
path runs from top to bottom untouched, and one norm after the stack brings its sum back to unit size.
"""

from .attention import both, causal_mask
from .layers import FeedForward, Layer, LayerNorm, dropout_backward, dropout_forward
from .multi_head import MultiHeadAttention


class Residual:
    """What stands around a sublayer f: h = enter(x), y = f(h), output = leave(x, y)."""

    def __init__(self, norm, config):
        self.norm, self.pre, self.rate = norm, config.norm == "pre", float(config.dropout)

    def enter(self, x):
        return self.norm.forward(x) if self.pre else (x, None)

    def enter_backward(self, dh, cache):
        return self.norm.backward(dh, cache) if self.pre else dh

    def leave(self, x, y, rng):
        dropped, factor = dropout_forward(y, self.rate, rng)
        total = x + dropped
        output, cache = (total, None) if self.pre else self.norm.forward(total)
        return output, (factor, cache)

    def leave_backward(self, doutput, cache):
        """Gradients of x, along the residual path alone, and of y."""
        factor, cache = cache
        dtotal = doutput if self.pre else self.norm.backward(doutput, cache)
        return dtotal, dropout_backward(dtotal, factor)


class Block(Layer):
    """The attentions, the feed-forward, and a residual with a norm of its own around each."""

    def __init__(self, attentions, config, dtype, rng):
        super().__init__()
        for name in attentions:
            self.children[name] = MultiHeadAttention(config, dtype, rng)
        self.children["feed_forward"] = FeedForward(config, dtype, rng)
        for i in range(len(attentions) + 1):
            self.children[f"norm{i}"] = LayerNorm(config, dtype)
        self.around = [Residual(self.children[f"norm{i}"], config) for i in range(len(attentions) + 1)]

    def attend_self(self, i, x, visible, rng):
        h, entered = self.around[i].enter(x)
        y, _, attended = self.children["self_attention"].forward(h, h, visible)
        x, left = self.around[i].leave(x, y, rng)
        return x, (entered, attended, left)

    def attend_self_backward(self, i, doutput, cache):
        entered, attended, left = cache
        dx, dy = self.around[i].leave_backward(doutput, left)
        dquery, dkey_value = self.children["self_attention"].backward(dy, attended)
        return dx + self.around[i].enter_backward(dquery + dkey_value, entered)

    def attend_memory(self, i, x, memory, visible, rng):
        """Queries from the decoder, keys and values from the encoder's output."""
        h, entered = self.around[i].enter(x)
        y, _, attended = self.children["cross_attention"].forward(h, memory, visible)
        x, left = self.around[i].leave(x, y, rng)
        return x, (entered, attended, left)

    def attend_memory_backward(self, i, doutput, cache):
        """Gradients of x and of the memory."""
        entered, attended, left = cache
        dx, dy = self.around[i].leave_backward(doutput, left)
        dquery, dmemory = self.children["cross_attention"].backward(dy, attended)
        return dx + self.around[i].enter_backward(dquery, entered), dmemory

    def feed(self, i, x, rng):
        h, entered = self.around[i].enter(x)
        y, fed = self.children["feed_forward"].forward(h)
        x, left = self.around[i].leave(x, y, rng)
        return x, (entered, fed, left)

    def feed_backward(self, i, doutput, cache):
        entered, fed, left = cache
        dx, dy = self.around[i].leave_backward(doutput, left)
        dh = self.children["feed_forward"].backward(dy, fed)
        return dx + self.around[i].enter_backward(dh, entered)


class EncoderLayer(Block):
    """Self-attention, feed-forward."""

    def __init__(self, config, dtype, rng):
        super().__init__(("self_attention",), config, dtype, rng)

    def forward(self, x, visible, rng):
        x, attended = self.attend_self(0, x, visible, rng)
        x, fed = self.feed(1, x, rng)
        return x, (attended, fed)

    def backward(self, dx, cache):
        attended, fed = cache
        dx = self.feed_backward(1, dx, fed)
        return self.attend_self_backward(0, dx, attended)


class DecoderLayer(Block):
    """Causal self-attention, cross-attention to the memory, feed-forward."""

    def __init__(self, config, dtype, rng):
        super().__init__(("self_attention", "cross_attention"), config, dtype, rng)

    def forward(self, x, memory, visible, memory_visible, rng):
        causal = both(visible, causal_mask(x.shape[1], x.shape[1]))
        x, attended = self.attend_self(0, x, causal, rng)
        x, crossed = self.attend_memory(1, x, memory, memory_visible, rng)
        x, fed = self.feed(2, x, rng)
        return x, (attended, crossed, fed)

    def backward(self, dx, cache):
        """Gradients of x and of the memory."""
        attended, crossed, fed = cache
        dx = self.feed_backward(2, dx, fed)
        dx, dmemory = self.attend_memory_backward(1, dx, crossed)
        return self.attend_self_backward(0, dx, attended), dmemory


class Stack(Layer):
    """Layers 0, 1, ... in order, and with "pre" one norm after the last."""

    def __init__(self, layer, depth, config, dtype, rng):
        super().__init__()
        self.layers = [layer(config, dtype, rng) for _ in range(depth)]
        self.children |= {str(i): layer for i, layer in enumerate(self.layers)}
        self.norm = LayerNorm(config, dtype) if config.norm == "pre" else None
        if self.norm:
            self.children["norm"] = self.norm

    def finish(self, x):
        return self.norm.forward(x) if self.norm else (x, None)

    def finish_backward(self, dx, cache):
        return self.norm.backward(dx, cache) if self.norm else dx


class Encoder(Stack):
    def __init__(self, config, dtype, rng):
        super().__init__(EncoderLayer, config.num_encoder_layers, config, dtype, rng)

    def forward(self, x, visible, rng):
        caches = []
        for layer in self.layers:
            x, cache = layer.forward(x, visible, rng)
            caches.append(cache)
        x, finished = self.finish(x)
        return x, (caches, finished)

    def backward(self, dx, cache):
        caches, finished = cache
        dx = self.finish_backward(dx, finished)
        for layer, cache in zip(reversed(self.layers), reversed(caches)):
            dx = layer.backward(dx, cache)
        return dx


class Decoder(Stack):
    """Every layer reads the same memory, so the memory's gradient is the sum over the layers."""

    def __init__(self, config, dtype, rng):
        super().__init__(DecoderLayer, config.num_decoder_layers, config, dtype, rng)

    def forward(self, x, memory, visible, memory_visible, rng):
        caches = []
        for layer in self.layers:
            x, cache = layer.forward(x, memory, visible, memory_visible, rng)
            caches.append(cache)
        x, finished = self.finish(x)
        return x, (caches, finished)

    def backward(self, dx, cache):
        caches, finished = cache
        dx, dmemory = self.finish_backward(dx, finished), 0
        for layer, cache in zip(reversed(self.layers), reversed(caches)):
            dx, dlayer = layer.backward(dx, cache)
            dmemory = dmemory + dlayer
        return dx, dmemory
