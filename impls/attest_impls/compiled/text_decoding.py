"""A language model step by step, with caches of fixed size, so that one graph serves every step.

A state may be gone on from more than once. Its tokens lie in buffers that it shares with the states before
and behind it: the newest of them writes its next tokens in place, and an older one goes on in a copy.
Buffers have more places than tokens. What lies behind a state's own tokens is hidden from it by the mask,
not by slicing.

Shapes: B rows, G key heads, L places, n new tokens, d width of a head, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from attest_impls.eager.language_model import LanguageModel, Sight, positions_of, score_bias
from attest_impls.eager.masks import window_mask

from .decoding import Pairs, moved
from .private_torch import keep_address

Parts = tuple[Tensor, Tensor, Tensor, Pairs]
BLOCK = 32


@dataclass(eq=False)
class Buffers:
    """What is kept of tokens. One place more than is ever written, see `parts`."""

    layers: Pairs  # (B, G, L, d), zeros where nothing is written
    real: Tensor  # (B, L): False at padding and where nothing is written
    positions: Tensor  # (B, L)
    filled: int = 0  # how many places the newest state has written

    def __post_init__(self) -> None:
        keep_address(self.real, self.positions, *(x for pair in self.layers for x in pair))

    @property
    def capacity(self) -> int:
        return self.real.shape[1] - 1

    def parts(self, end: int) -> tuple[Tensor, Tensor, Pairs]:
        """What a step reads and writes that ends at this place.

        On a CPU the places behind it are left out, in blocks: reading them only to hide them takes time.
        All of them would have other strides, and be another graph. A CUDA graph would be recorded for each
        length.
        """
        if self.real.is_cuda:
            return self.real, self.positions, self.layers
        last = min(-(-end // BLOCK) * BLOCK, self.capacity)
        layers = [(k[:, :, :last], v[:, :, :last]) for k, v in self.layers]
        return self.real[:, :last], self.positions[:, :last], layers

    def copied(self, length: int, capacity: int, rows: Tensor | None = None) -> Buffers:
        """Others with the first `length` tokens, of these rows, and room for so many."""

        def copy(x: Tensor, axis: int) -> Tensor:
            x = x.narrow(axis, 0, length)
            x = x if rows is None else x.index_select(0, rows)
            made = x.new_zeros((*x.shape[:axis], capacity + 1, *x.shape[axis + 1 :]))
            made.narrow(axis, 0, length).copy_(x)
            return made

        layers = [(copy(k, 2), copy(v, 2)) for k, v in self.layers]
        return Buffers(layers, copy(self.real, 1), copy(self.positions, 1), length)

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes the old row rows[i]."""
        self.real, self.positions = moved(self.real, rows), moved(self.positions, rows)
        self.layers = [(moved(k, rows), moved(v, rows)) for k, v in self.layers]


@dataclass(frozen=True, eq=False)
class TextState:
    """The first `length` tokens of some buffers; `place` says the same as a tensor, for the graph."""

    buffers: Buffers
    place: Tensor  # (1,)
    length: int = field(default=0)

    @property
    def rows(self) -> int:
        return self.buffers.real.shape[0]

    def positions_of(self, real: Tensor) -> Tensor:
        """Of tokens that come next."""
        return positions_of(real, self.buffers.real[:, : self.length].sum(1, keepdim=True))  # (B, n)

    def rewound(self, count: int) -> TextState:
        return TextState(self.buffers, self.place - count, self.length - count)

    def behind(self, count: int) -> TextState:
        """The state that includes so many tokens which were written behind this one."""
        return TextState(self.buffers, self.place + count, self.length + count)

    def reordered(self, rows: Tensor) -> TextState:
        """The state whose row i is this one's row rows[i]. This one stays as it is."""
        buffers = self.buffers.copied(self.length, self.buffers.capacity, rows)
        return TextState(buffers, self.place.clone(), self.length)

    def with_room(self, new: int) -> TextState:
        """A state that may write so many tokens in place."""
        buffers, end = self.buffers, self.length + new
        if buffers.filled == self.length and end <= buffers.capacity:
            return self
        capacity = buffers.capacity if end <= buffers.capacity else max(end, 2 * buffers.capacity)
        return TextState(buffers.copied(self.length, capacity), self.place, self.length)


def empty_state(model: LanguageModel, rows: int, capacity: int) -> TextState:
    """No token, and room for `capacity`."""
    config, table = model.config, model.embedding.weight
    shape = (rows, config.kv_heads, capacity + 1, config.d_head)
    layers = [(table.new_zeros(shape), table.new_zeros(shape)) for _ in range(config.num_decoder_layers)]
    real = torch.zeros(rows, capacity + 1, dtype=torch.bool, device=table.device)
    positions = torch.zeros(rows, capacity + 1, dtype=torch.int64, device=table.device)
    return TextState(Buffers(layers, real, positions), positions.new_zeros(1))


class Kept:
    """Keys and values of one layer in a buffer, as eager's attention asks for them: it appends and reads."""

    def __init__(self, pair: tuple[Tensor, Tensor], places: Tensor, written: Tensor) -> None:
        self.k, self.v = pair
        self.places, self.written = places, written[:, None]

    def append(self, k: Tensor, v: Tensor) -> None:
        self.k.index_copy_(2, self.places, k)
        self.v.index_copy_(2, self.places, v)
        # A free place may hold anything, and 0 * nan is nan.
        self.k, self.v = torch.where(self.written, self.k, 0.0), torch.where(self.written, self.v, 0.0)


def read_on(
    model: LanguageModel, tokens: Tensor, place: Tensor, real: Tensor, positions: Tensor, layers: Pairs
) -> Tensor:
    """Logits (B, n, V) of tokens (B, n) that stand from `place` on; the buffers are written in place."""
    return _logits(model, _features(model, tokens, place, real, positions, layers))


def read_last(model: LanguageModel, tokens: Tensor, *parts: object) -> Tensor:
    """The logits (B, V) of the last token alone: of a prompt nothing else is asked."""
    return _logits(model, _features(model, tokens, *parts)[:, -1:])[:, 0]  # type: ignore[arg-type]


def _features(
    model: LanguageModel, tokens: Tensor, place: Tensor, real: Tensor, positions: Tensor, layers: Pairs
) -> Tensor:
    numbers = torch.arange(real.shape[1], device=tokens.device)  # (L,)
    before = (real & (numbers < place)).sum(1, keepdim=True)  # (B, 1)
    new = model.real(tokens)  # (B, n)
    at = positions_of(new, before)  # (B, n)
    places = place + torch.arange(tokens.shape[1], device=tokens.device)  # (n,)
    real.index_copy_(1, places, new)
    positions.index_copy_(1, places, at)
    allowed = real[:, None] & (numbers <= places[:, None])  # (B, n, L)
    if model.config.window is not None:
        allowed = allowed & window_mask(at, positions, model.config.window, model.config.window_sides)
    bias = score_bias(model.config, model.decoder.relative, at, positions, causal=True)
    written = (numbers <= places[-1:])[None, :, None]  # (1, L, 1)
    past = [Kept(pair, places, written) for pair in layers]
    return model.decoder(model.embed(tokens, at), Sight(at, allowed, bias), past)  # type: ignore[arg-type]


def _logits(model: LanguageModel, x: Tensor) -> Tensor:
    return model.projection(x * model.config.projection_scale)
