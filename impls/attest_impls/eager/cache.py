"""Decoding a few tokens at a time: keys and values of what came before are kept, not computed again.

Shapes: N decoder layers, B rows, H heads, L capacity, S source length, n new tokens, d = D / H, V vocabulary.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from .masks import causal_mask
from .model import DecoderLayer, Transformer


class StepwiseDecoder(Protocol):
    """What a search asks of a decoder. This module is one.

    `look_every`: how many tokens it writes between two looks at whether all rows have ended. On a GPU a look
    waits until everything before it has run.
    """

    look_every: int

    def start(self, model: Transformer, source: Tensor, capacity: int) -> Any: ...

    def step(self, model: Transformer, state: Any, tokens: Tensor) -> tuple[Tensor, Any]: ...

    def reorder(self, state: Any, rows: Tensor) -> Any: ...


look_every = 1


@dataclass(eq=False)
class State:
    """A prefix as the decoder needs it: `length` tokens are in it, and there is room for `capacity`."""

    past: Tensor  # (N, 2, B, H, L, d): keys and values of the target
    past_seen: Tensor  # (B, 1, 1, L): False where the target is padding
    memory: Tensor  # (N, 2, B, H, S, d): keys and values of the source, computed once
    memory_seen: Tensor  # (B, 1, 1, S): False where the source is padding
    length: int = 0
    spent: bool = field(default=False, repr=False)

    @property
    def rows(self) -> int:
        return self.past.shape[2]

    @property
    def capacity(self) -> int:
        return self.past.shape[4]


def start(model: Transformer, source: Tensor, capacity: int) -> State:
    """Run the encoder once, and from its memory the keys and values of every decoder layer."""
    encoded = model.encode(source)
    pairs = [torch.stack(layer.cross_attention.keys_values(encoded)) for layer in model.decoder.layers()]
    memory = torch.stack(pairs)
    N, _, B, H, _, d = memory.shape
    past_seen = torch.zeros(B, 1, 1, capacity, dtype=torch.bool, device=source.device)
    return State(memory.new_zeros(N, 2, B, H, capacity, d), past_seen, memory, model.seen(source)[:, None])


def step(model: Transformer, state: State, tokens: Tensor) -> tuple[Tensor, State]:
    """Append tokens (B, n): logits (B, n, V) and the state that includes them. The old state is used up."""
    end = state.length + tokens.shape[1]
    state.past_seen[..., state.length : end] = model.seen(tokens)[:, None]
    x = model.target_embedding(tokens, state.length)  # (B, n, D)
    bias = model.decoder.bias(tokens.shape[1], end, causal=True)  # (1, H, n, end)
    for i, layer in enumerate(model.decoder.layers()):
        x = _cached_layer(layer, x, state, i, bias)  # (B, n, D)
    state.spent = True
    return model.logits(model.decoder.norm(x)), replace(state, length=end, spent=False)


def _cached_layer(layer: DecoderLayer, x: Tensor, state: State, i: int, bias: Tensor | None) -> Tensor:
    """The sublayers of DecoderLayer.forward. Keys and values come from the state, and new ones go there."""
    n = x.shape[1]
    end = state.length + n
    allowed = causal_mask(n, end, x.device) & state.past_seen[..., :end]  # (B, 1, n, end)

    def read_past(y: Tensor) -> Tensor:
        state.past[i, :, :, :, state.length : end] = torch.stack(layer.self_attention.keys_values(y))
        return layer.self_attention.read(y, *state.past[i, ..., :end, :], allowed, bias)[0]

    def read_memory(y: Tensor) -> Tensor:
        return layer.cross_attention.read(y, *state.memory[i], state.memory_seen)[0]

    x = layer.join(x, layer.norm0, read_past)
    x = layer.join(x, layer.norm1, read_memory)
    return layer.join(x, layer.norm2, layer.feed_forward)


def reorder(state: State, rows: Tensor) -> State:
    """The state whose row i is the old row rows[i]. The old state is used up."""
    state.spent = True
    return replace(
        state,
        past=state.past.index_select(2, rows),
        past_seen=state.past_seen.index_select(0, rows),
        memory=state.memory.index_select(2, rows),
        memory_seen=state.memory_seen.index_select(0, rows),
        spent=False,
    )
