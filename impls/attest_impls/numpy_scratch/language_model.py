"""The decoder-only model: ids in, logits of what follows each token out; and its cache.

A token's position is the number of real tokens before it, and padding is hidden wherever it stands. So a
prompt may be padded on either side, and a cached step computes what a whole pass would.

Shapes: B batch, T tokens, n new ones, D width, V vocabulary, H heads, G key heads, d width of a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attest.contract import Array, Config

from .blocks import Residual, Stack, feed, feed_backward, residuals
from .embedding import Embedding, position_table
from .feed_forward import FeedForward
from .layers import Cache, Dropout, DType, Layer, Linear, Random
from .norm import norm_of
from .positions import LearnedPositions, RelativeBias
from .self_attention import Place, SelfAttention, placed


class CausalLayer(Layer):
    """Masked self-attention and feed-forward, one after the other or, `parallel`, side by side.

    Side by side each reads x through its own norm, wherever the config places norms otherwise.
    """

    def __init__(self, config: Config, dtype: DType, rng: Random, relative: RelativeBias | None) -> None:
        super().__init__()
        self.parallel = config.parallel
        self.self_attention = self.child("self_attention", SelfAttention(config, dtype, rng, relative))
        self.feed_forward = self.child("feed_forward", FeedForward(config, dtype, rng))
        placed_before = config.but(norm="pre") if config.parallel else config
        self.around: list[Residual] = residuals(self, 2, placed_before, dtype)

    def forward(self, x: Array, place: Place, rng: Random | None) -> tuple[Array, Cache]:
        h, entered = self.around[0].enter(x)
        y, _, attended = self.self_attention.forward(h, place)
        if self.parallel:
            output, beside = self.side_by_side(x, y, rng)
            return output, (entered, attended, beside)
        x, left = self.around[0].leave(x, y, rng)
        x, fed = feed(self, x, rng)
        return x, (entered, attended, (left, fed))

    def backward(self, dx: Array, cache: Cache) -> Array:
        """The steps of forward in reverse; the residual path collects the share of each sublayer."""
        entered, attended, rest = cache
        if self.parallel:
            dx, dy = self.side_by_side_backward(dx, rest)
        else:
            left, fed = rest
            dx, dy = self.around[0].leave_backward(feed_backward(self, dx, fed), left)
        dh = self.self_attention.backward(dy, attended)
        return dx + self.around[0].enter_backward(dh, entered)

    def side_by_side(self, x: Array, y: Array, rng: Random | None) -> tuple[Array, Cache]:
        """x + y + feed_forward(norm1(x)): both sublayers read the same x."""
        h, entered = self.around[1].enter(x)
        z, fed = self.feed_forward.forward(h)
        dropped_y, factor_y = self.around[0].dropout.forward(y, rng)
        dropped_z, factor_z = self.around[1].dropout.forward(z, rng)
        return x + dropped_y + dropped_z, (entered, fed, factor_y, factor_z)

    def side_by_side_backward(self, dx: Array, cache: Cache) -> tuple[Array, Array]:
        """Gradients of x, without what went through attention, and of y."""
        entered, fed, factor_y, factor_z = cache
        dz = self.around[1].dropout.backward(dx, factor_z)
        through = self.around[1].enter_backward(self.feed_forward.backward(dz, fed), entered)
        return dx + through, self.around[0].dropout.backward(dx, factor_y)

    def step(self, x: Array, past: Past, place: Place) -> Array:
        """`forward` for the newest tokens x (B, n, D): their keys and values go behind those of `past`."""
        h, _ = self.around[0].enter(x)
        past.append(*self.self_attention.keys_values(h, place.positions)[:2])
        y, _, _ = self.self_attention.read(h, past.keys, past.values, place)
        if self.parallel:
            return self.side_by_side(x, y, None)[0]
        x, _ = self.around[0].leave(x, y, None)
        return feed(self, x, None)[0]


class TextModel(Layer):
    """What every model of one stack has: ids embedded, and layers that read them.

    `vocab` is the field of the config with the number of ids.
    """

    def __init__(self, config: Config, dtype: DType, rng: Random, vocab: str) -> None:
        super().__init__()
        self.config, self.dtype = config, dtype
        self.embedding = self.child("embedding", Embedding(getattr(config, vocab), config, dtype, rng))
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.learned = None
        if config.positions == "learned":
            self.learned = self.child("position_embedding", LearnedPositions(config, dtype, rng))
        self.embedding_norm = None
        if config.embedding_norm:
            self.embedding_norm = self.child("embedding_norm", norm_of(config, dtype))
        self.sinusoids = None
        if config.positions == "sinusoidal":
            self.sinusoids = position_table(config.max_len, config.d_model).astype(dtype)
        self.dropout = Dropout(config.dropout)

    def stack(self, depth: int, rng: Random) -> Stack[CausalLayer]:
        """So many layers; what is relative has one table for all of them."""
        config, dtype = self.config, self.dtype
        relative = RelativeBias(config, dtype, rng) if config.positions == "relative" else None
        layers = [CausalLayer(config, dtype, rng, relative) for _ in range(depth)]
        found = Stack(layers, config, dtype)
        if relative is not None:
            found.child("relative", relative)
        return found

    def projected(self, classes: int, rng: Random, tied_to: Layer | None = None) -> Linear:
        """The last map."""
        config = self.config
        bias = config.bias if config.head_bias is None else config.head_bias
        return Linear(config.d_model, classes, bias, self.dtype, rng, tied_to)

    def real(self, ids: Array) -> Array:
        """(B, T): True where a token is no padding."""
        pad_id = self.config.pad_id
        real: Array = np.ones(ids.shape, bool) if pad_id is None else ids != pad_id
        return real

    def positions(self, real: Array, before: Array) -> Array:
        """(B, T): the number of real tokens before each, `before` (B,) of them in earlier steps."""
        counted: Array = np.maximum(before[:, None] + np.cumsum(real, axis=1) - 1, 0)
        return counted

    def through(
        self, stack: Stack[CausalLayer], x: Array, place: Place, rng: Random | None
    ) -> tuple[Array, Cache]:
        """x (B, T, D) through every layer and the norm behind them."""
        caches = []
        for layer in stack.layers:
            x, cache = layer.forward(x, place, rng)
            caches.append(cache)
        x, finished = stack.finish(x)
        return x, (caches, finished)

    def through_backward(self, stack: Stack[CausalLayer], dx: Array, cache: Cache) -> Array:
        caches, finished = cache
        dx = stack.finish_backward(dx, finished)
        for layer, cache in zip(reversed(stack.layers), reversed(caches)):
            dx = layer.backward(dx, cache)
        return dx

    def embed(
        self, ids: Array, positions: Array, rng: Random | None, beside: Array | None = None
    ) -> tuple[Array, Cache]:
        """Scaled rows, what stands beside them, positions that are added, a norm, dropout: (B, T, D)."""
        tokens, looked_up = self.embedding.look_up(ids)
        x, at = tokens * self.scale, None
        if beside is not None:
            x = x + beside
        if self.learned is not None:
            rows, at = self.learned.forward(positions)
            x = x + rows
        if self.sinusoids is not None:
            x = x + self.sinusoids[positions]
        x, normed = self.embedding_norm.forward(x) if self.embedding_norm else (x, None)
        x, dropped = self.dropout.forward(x, rng)
        return x, (looked_up, at, normed, dropped)

    def embed_backward(self, dx: Array, cache: Cache) -> Array:
        """Returns the gradient of what stood beside the tokens."""
        looked_up, at, normed, dropped = cache
        dx = self.dropout.backward(dx, dropped)
        dx = self.embedding_norm.backward(dx, normed) if self.embedding_norm else dx
        if self.learned is not None:
            self.learned.backward(dx, at)
        self.embedding.look_up_backward(dx * self.scale, looked_up)
        return dx


class LanguageModel(TextModel):
    """Embedding, causal layers, projection."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__(config, dtype, rng, "target_vocab")
        self.decoder = self.child("decoder", self.stack(config.num_decoder_layers, rng))
        tied_to = self.embedding if config.tie else None
        self.projection = self.child("projection", self.projected(config.target_vocab, rng, tied_to))

    def forward(self, ids: Array, rng: Random | None) -> tuple[Array, Cache]:
        real = self.real(ids)
        positions = self.positions(real, np.zeros(len(ids), int))  # (B, T)
        return self.at(ids, positions, real[:, None, :], rng)

    def at(self, ids: Array, positions: Array, visible: Array, rng: Random | None) -> tuple[Array, Cache]:
        """ids at positions (B, T) that see keys by (B, 1 or T, T), none behind their own."""
        place = placed(self.config, positions, positions, visible[:, None], True)
        x, embedded = self.embed(ids, positions, rng)  # (B, T, D)
        x, read = self.through(self.decoder, x, place, rng)
        logits, projected = self.projection.forward(x * self.config.projection_scale)  # (B, T, V)
        return logits, (embedded, read, projected)

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """Ids have no gradient, so all that is left of it stands in `grads`."""
        embedded, read, projected = cache
        dx = self.projection.backward(dlogits, projected) * self.config.projection_scale
        self.embed_backward(self.through_backward(self.decoder, dx, read), embedded)

    def aligned(self, prompt: Array) -> Array:
        """A prompt is continued behind its last column: padding stands before it."""
        return prompt

    def begin(self, prompt: Array, max_len: int) -> tuple[TextState, Array]:
        """Generation reads the prompt as its first step."""
        return start(self, len(prompt)), prompt

    def step(self, state: TextState, tokens: Array) -> tuple[Array, TextState]:
        return step(self, state, tokens)

    def reorder(self, state: TextState, rows: Array) -> TextState:
        return reorder(state, rows)


@dataclass
class Past:
    """Keys and values (B, G, t, d) of one layer."""

    keys: Array
    values: Array

    def append(self, k: Array, v: Array) -> None:
        self.keys = np.concatenate([self.keys, k], axis=2)
        self.values = np.concatenate([self.values, v], axis=2)


@dataclass
class TextState:
    """What has been read: which tokens were real, where they stand, and each layer's keys and values."""

    real: Array  # (B, t)
    positions: Array  # (B, t)
    past: list[Past]
    used_up: bool = False

    @property
    def rows(self) -> int:
        return len(self.real)

    @property
    def length(self) -> int:
        return int(self.real.shape[1])

    @property
    def longest(self) -> int:
        """The real tokens of the longest row."""
        return int(self.real.sum(axis=1).max(initial=0))


def start(model: LanguageModel, rows: int) -> TextState:
    """Rows without a token."""
    shape = (rows, model.config.kv_heads, 0, model.config.d_head)
    past = [Past(np.zeros(shape, model.dtype), np.zeros(shape, model.dtype)) for _ in model.decoder.layers]
    return TextState(np.zeros((rows, 0), bool), np.zeros((rows, 0), int), past)


def step(model: LanguageModel, state: TextState, tokens: Array) -> tuple[Array, TextState]:
    """Append tokens (B, n), a prompt or its continuation: logits (B, n, V) and the new state."""
    new = model.real(tokens)
    positions = model.positions(new, state.real.sum(axis=1))  # (B, n)
    real = np.concatenate([state.real, new], axis=1)  # (B, t)
    everywhere = np.concatenate([state.positions, positions], axis=1)  # (B, t)
    place = placed(model.config, positions, everywhere, real[:, None, None, :], True)
    x, _ = model.embed(tokens, positions, None)
    for layer, past in zip(model.decoder.layers, state.past):
        x = layer.step(x, past, place)
    x, _ = model.decoder.finish(x)
    logits, _ = model.projection.forward(x * model.config.projection_scale)
    return logits, TextState(real, everywhere, state.past)


def reorder(state: TextState, rows: Array) -> TextState:
    """The state whose row i is the old row rows[i]."""
    past = [Past(layer.keys[rows], layer.values[rows]) for layer in state.past]
    return TextState(state.real[rows], state.positions[rows], past)


def rewind(state: TextState, count: int) -> TextState:
    """The state without the last `count` tokens of every row."""
    end = state.length - count
    past = [Past(layer.keys[:, :, :end], layer.values[:, :, :end]) for layer in state.past]
    return TextState(state.real[:, :end], state.positions[:, :end], past)
