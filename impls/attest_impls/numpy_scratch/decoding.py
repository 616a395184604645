"""Decoding a few tokens at a time: keys and values of what came before are kept, not computed again.

A decoder layer looks at earlier positions only through their keys and values, and those never change: under
the causal mask no later token reaches them. So a new token needs one query, one key and one value per layer.

Shapes: N decoder layers, B rows, H heads, d = D / H, L capacity, S source length, n new tokens, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attest.contract import Array

from .arguments import require
from .masks import causal_mask
from .model import Transformer


class TransformerWriter:
    """The encoder-decoder as generation sees it: the source is read once, then BOS is written."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.config = model, model.config

    def aligned(self, prompt: Array) -> Array:
        """Padding before a source goes behind it: positions count from the first real token."""
        S = prompt.shape[1]
        leading = (prompt != self.config.pad_id).argmax(axis=-1)[:, None]  # (B, 1)
        return np.take_along_axis(prompt, (np.arange(S) + leading) % S, axis=1)

    def begin(self, prompt: Array, max_len: int) -> tuple[State, Array]:
        return start(self.model, prompt, max_len), np.full((len(prompt), 1), self.config.bos_id)

    def step(self, state: State, tokens: Array) -> tuple[Array, State]:
        return step(self.model, state, tokens)

    def reorder(self, state: State, rows: Array) -> State:
        return reorder(state, rows)


@dataclass
class State:
    """What the decoder has read so far. The buffers are allocated once, for `capacity` tokens."""

    past: Array  # (N, 2, B, H, L, d): keys and values of the target, the first `length` positions filled
    memory: Array  # (N, 2, B, H, S, d): keys and values of the source
    target_visible: Array  # (B, 1, 1, L): False where padding was fed
    source_visible: Array  # (B, 1, 1, S)
    length: int = 0
    used_up: bool = False

    @property
    def rows(self) -> int:
        return int(self.past.shape[2])

    @property
    def capacity(self) -> int:
        return int(self.past.shape[4])

    def use_up(self) -> None:
        """The next state shares or replaces these buffers, so this one may not be used again."""
        remedy = "go on with the state that step or reorder returned"
        require(not self.used_up, "state", f"<after {self.length} tokens>", "is used up", remedy)
        self.used_up = True


def start(model: Transformer, source: Array, capacity: int) -> State:
    """Run the encoder once, and from its memory the keys and values of every decoder layer."""
    encoded, _ = model.encode(source, None)  # (B, S, D)
    memory = np.stack([layer.cross_attention.keys_values(encoded) for layer in model.decoder.layers])
    N, _, B, H, _, d = memory.shape
    past = np.empty((N, 2, B, H, capacity, d), memory.dtype)
    target_visible = np.ones((B, 1, 1, capacity), bool)
    return State(past, memory, target_visible, model.visible(source))


def step(model: Transformer, state: State, tokens: Array) -> tuple[Array, State]:
    """Append tokens (B, n): logits (B, n, V) and the state that includes them. The old state is used up."""
    state.use_up()
    n, end = tokens.shape[1], state.length + tokens.shape[1]
    state.target_visible[..., state.length : end] = model.visible(tokens)
    visible = state.target_visible[..., :end] & causal_mask(n, end)  # (B, 1, n, end)
    x, _ = model.target_embedding.forward(tokens, None, start=state.length)  # (B, n, D)
    for layer, past, memory in zip(model.decoder.layers, state.past, state.memory):
        x = layer.step(x, past, state.length, visible, memory, state.source_visible)
    x, _ = model.decoder.finish(x)
    logits, _ = model.projection.forward(x)
    return logits, replace(state, length=end, used_up=False)


def reorder(state: State, rows: Array) -> State:
    """The state whose row i is the old row rows[i]: to drop, repeat and exchange rows."""
    state.use_up()
    N, _, _, H, capacity, d = state.past.shape
    past = np.empty((N, 2, len(rows), H, capacity, d), state.past.dtype)
    past[..., : state.length, :] = state.past[:, :, rows, :, : state.length]
    return replace(
        state,
        past=past,
        memory=state.memory[:, :, rows],
        target_visible=state.target_visible[rows],
        source_visible=state.source_visible[rows],
        used_up=False,
    )
