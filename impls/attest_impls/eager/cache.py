"""Decoding a few tokens at a time: keys and values of what came before are kept, not computed again.

Shapes: N decoder layers, B rows, H heads, L capacity, S source length, n new tokens, d = D / H, V vocabulary.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .arguments import check_ids
from .attention import causal_mask, padding_mask
from .layers import DecoderLayer
from .model import Transformer


@dataclass(eq=False)
class State:
    """A prefix as the decoder needs it. The buffers are allocated once, for `capacity` tokens."""

    past: Tensor  # (N, 2, B, H, L, d): keys and values of the target, the first `length` of them filled
    memory: Tensor  # (N, 2, B, H, S, d): those of the source, computed once
    source_seen: Tensor | None  # (B, 1, 1, S), or None if the source has no padding
    target_seen: Tensor | None = None  # (B, 1, 1, L), or None while no padding has been fed
    length: int = 0
    spent: bool = field(default=False, repr=False)

    @property
    def rows(self) -> int:
        return self.past.shape[2]

    @property
    def capacity(self) -> int:
        return self.past.shape[4]


def start(model: Transformer, source: Tensor, capacity: int | None = None) -> State:
    """Run the encoder once, and from its memory the keys and values of every decoder layer."""
    encoded = model.encode(source)
    pairs = [torch.stack(layer.cross_attention.keys_values(encoded)) for layer in model.decoder.layers()]
    memory = torch.stack(pairs)
    N, _, B, H, _, d = memory.shape
    past = memory.new_empty(N, 2, B, H, model.config.max_len if capacity is None else capacity, d)
    seen = padding_mask(source, model.config.pad_id)
    return State(past, memory, None if bool(seen.all()) else seen[:, None])


def step(model: Transformer, state: State, tokens: Tensor) -> tuple[Tensor, State]:
    """Append tokens (B, n): logits (B, n, V) and the state that includes them. The old state is used up."""
    _check_fresh(state)
    check_ids("tokens", tokens, model.config.target_vocab)
    _check_room(state, tokens)
    return advance(model, state, tokens)


def advance(model: Transformer, state: State, tokens: Tensor) -> tuple[Tensor, State]:
    """The same for tokens known to be good: what the search loops call."""
    end = state.length + tokens.shape[1]
    allowed = None if tokens.shape[1] == 1 else causal_mask(tokens.shape[1], end, tokens.device)
    target_seen = _with_padding(model, state, tokens)
    if target_seen is not None:
        seen = target_seen[..., :end]
        allowed = seen if allowed is None else seen & allowed
    x = model.target_embedding.at(tokens, state.length)
    for i, layer in enumerate(model.decoder.layers()):
        x = _cached_layer(layer, x, state, i, allowed)
    state.spent = True
    grown = replace(state, target_seen=target_seen, length=end, spent=False)
    return model.projection(model.decoder.norm(x)), grown


def _cached_layer(layer: DecoderLayer, x: Tensor, state: State, i: int, allowed: Tensor | None) -> Tensor:
    def read_past(y: Tensor) -> Tensor:
        end = state.length + y.shape[1]
        keys, values = state.past[i].unbind(0)  # (B, H, L, d)
        new_keys, new_values = layer.self_attention.keys_values(y)
        keys[:, :, state.length : end] = new_keys
        values[:, :, state.length : end] = new_values
        return layer.self_attention.read(y, keys[:, :, :end], values[:, :, :end], allowed)[0]

    def read_memory(y: Tensor) -> Tensor:
        keys, values = state.memory[i].unbind(0)  # (B, H, S, d)
        return layer.cross_attention.read(y, keys, values, state.source_seen)[0]

    return layer.sublayers(x, read_past, read_memory)


def reorder(state: State, rows: Tensor, same_source: bool = False) -> State:
    """The state whose row i is the old row rows[i]. The old state is used up.

    `same_source`: every row keeps its source, as in beam search, so only the past has to move.
    """
    _check_fresh(state)
    _check_rows(state, rows)
    kept = state.past[..., : state.length, :]
    past = state.past.new_empty(*state.past.shape[:2], len(rows), *state.past.shape[3:])
    past[..., : state.length, :] = kept.index_select(2, rows)
    state.spent = True
    moved = replace(state, past=past, target_seen=_select(state.target_seen, rows), spent=False)
    if same_source:
        return moved
    memory = state.memory.index_select(2, rows)
    return replace(moved, memory=memory, source_seen=_select(state.source_seen, rows))


def _select(mask: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if mask is None else mask.index_select(0, rows)


def _with_padding(model: Transformer, state: State, tokens: Tensor) -> Tensor | None:
    """Which of the tokens so far may be seen; None as long as all of them may."""
    seen = state.target_seen
    if seen is None:
        if not bool((tokens == model.config.pad_id).any()):
            return None
        seen = tokens.new_ones(state.rows, 1, 1, state.capacity, dtype=torch.bool)
    end = state.length + tokens.shape[1]
    seen[:, 0, 0, state.length : end] = tokens != model.config.pad_id
    return seen


def _check_fresh(state: State) -> None:
    _check_fresh_state(state, State)


def _check_fresh_state(state: Any, kind: type) -> None:
    if not isinstance(state, kind) or state.spent:
        raise ValueError(f"state={state!r:.40} is used up; go on with the one that step or reorder returned")


def _check_room(state: Any, tokens: Tensor) -> None:
    if tokens.shape[0] != state.rows:
        raise ValueError(f"tokens rows={tokens.shape[0]} are not the state's {state.rows}; give one row each")
    if state.length + tokens.shape[1] > state.capacity:
        asked = state.length + tokens.shape[1]
        raise ValueError(
            f"tokens length={asked} is beyond the {state.capacity} allocated; stop or raise max_len"
        )


def _check_rows(state: Any, rows: Tensor) -> None:
    whole = rows.dtype == torch.int64 and rows.ndim == 1 and len(rows) > 0
    if not whole or int(rows.min()) < 0 or int(rows.max()) >= state.rows:
        shown = rows.tolist()
        raise ValueError(f"rows={shown} are not row numbers below {state.rows}; give one axis of integers")
