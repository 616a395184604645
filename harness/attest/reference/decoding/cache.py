"""Decoding a few tokens at a time with keys and values kept from the steps before.

Shapes: B rows, H heads, t tokens so far, n new tokens, S source length, d = D / H.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attest.reference.parts.part import Part
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf


@dataclass
class Room:
    """An array (B, H, capacity, d) of which the first `taken` tokens are in use."""

    array: Array
    taken: int


class Kept:
    """Keys or values (B, H, t, d) with room behind them, so that a step need not copy the past."""

    __slots__ = ("array", "room")

    def __init__(self, array: Array, room: Room | None = None) -> None:
        self.array, self.room = array, room

    def appended(self, new: Array) -> Kept:
        """Behind the last token; a second continuation of the same tokens gets a copy."""
        start = self.array.shape[2]
        stop = start + new.shape[2]
        room = self.room
        if room is None or room.taken != start or room.array.shape[2] < stop:
            B, H, _, d = new.shape
            room = Room(np.empty((B, H, 2 * stop + 14, d)), start)
            room.array[:, :, :start] = self.array
        room.array[:, :, start:stop] = new
        room.taken = stop
        return Kept(room.array[:, :, :stop], room)


@dataclass(frozen=True)
class LayerCache:
    """One decoder layer: its own keys and values (B, H, t, d), and those of the memory (B, H, S, d)."""

    keys: Kept
    values: Kept
    memory_keys: Array
    memory_values: Array


@dataclass(frozen=True)
class State:
    """What is known of a prefix. `source` and `tokens` are kept so that a defect can recompute the prefix."""

    source: Array  # (B, S)
    tokens: Array  # (B, t)
    allowed: Array  # (B, 1, t), False at padding
    layers: tuple[LayerCache, ...]

    @property
    def length(self) -> int:
        return int(self.tokens.shape[1])


class Cache(Part):
    """Start, step, reorder."""

    def start(self, source: Array, p: Scope) -> State:
        """Run the encoder once; the prefix is empty."""
        memory, layers = self.parts.model.encode(source, p), self.parts.layers
        held = tuple(
            self.empty_layer(layers.memory_for_layer(i, memory), layers.layer_scope(p.at("decoder"), i))
            for i in range(self.config.num_decoder_layers)
        )
        B = source.shape[0]
        return State(source, np.zeros((B, 0), dtype=np.int64), np.zeros((B, 1, 0), dtype=bool), held)

    def empty_layer(self, memory: Var, p: Scope) -> LayerCache:
        """No tokens yet; the memory's keys and values never change."""
        k, v = self.parts.heads.keys_and_values(memory, p.at("cross_attention"), Where(place="cross"))
        B, H, _, d = k.shape
        return LayerCache(Kept(np.zeros((B, H, 0, d))), Kept(np.zeros((B, H, 0, d))), k.value, v.value)

    def check_room(self, state: State, new: int) -> None:
        if state.length + new > self.config.max_len and self.config.ends_at_max_len:
            raise ValueError(
                f"length={state.length + new} exceeds max_len={self.config.max_len}; "
                "stop earlier or raise max_len"
            )

    def offset(self, state: State) -> int:
        """The position of the first new token."""
        return state.length

    def append(self, held: Kept, new: Array) -> Kept:
        """Keys or values (B, H, n, d) of the new tokens behind those of the old ones."""
        return held.appended(new)

    def step(self, state: State, tokens: Array, p: Scope) -> tuple[Var, State]:
        """Logits (B, n, V) of the new tokens, and the state that includes them."""
        self.check_room(state, tokens.shape[1])
        model, stack = self.parts.model, self.parts.layers
        allowed = np.concatenate([state.allowed, model.target_mask(tokens)], axis=2)
        memory_mask, offset = model.memory_mask(state.source), self.offset(state)
        where = Where(allowed, memory_mask, offset=offset, place="decoder")
        x = model.target_input(tokens, p, where)
        where = stack.in_stack(p.at("decoder"), where)
        layers = []
        for i, held in enumerate(state.layers):
            scope = stack.layer_scope(p.at("decoder"), i)
            x, layer = self.cached_layer(x, held, scope, where.but(layer=i))
            layers.append(layer)
        read = np.concatenate([state.tokens, tokens], axis=1)
        grown = replace(state, tokens=read, allowed=allowed, layers=tuple(layers))
        return self.parts.logits(stack.final_norm(x, p.at("decoder")), p), grown

    def cached_layer(self, x: Var, held: LayerCache, p: Scope, where: Where) -> tuple[Var, LayerCache]:
        """A decoder layer over the new tokens alone."""
        own, cross, residual = p.at("self_attention"), p.at("cross_attention"), self.parts.residual
        past = where.but(causal=True)
        grown = [held]

        def attend_to_past(y: Var) -> Var:
            grown.append(self.grow(held, y, own, past))
            k, v = leaf(grown[-1].keys.array), leaf(grown[-1].values.array)
            return self.parts.heads.attend(y, k, v, own, past)["output"]

        def attend_to_memory(y: Var) -> Var:
            k, v = leaf(held.memory_keys), leaf(held.memory_values)
            return self.parts.heads.attend(y, k, v, cross, where.across())["output"]

        x = residual(x, attend_to_past, p.at("norm0"))
        x = residual(x, attend_to_memory, p.at("norm1"))
        x = residual(x, lambda y: self.parts.feed_forward(y, p.at("feed_forward")), p.at("norm2"))
        return x, grown[-1]

    def grow(self, held: LayerCache, y: Var, p: Scope, where: Where) -> LayerCache:
        """The keys and values of the new tokens, behind the old ones."""
        k, v = self.parts.heads.keys_and_values(y, p, where)
        return replace(held, keys=self.append(held.keys, k.value), values=self.append(held.values, v.value))

    def reorder(self, state: State, rows: Array) -> State:
        """Row i of the result is row rows[i]; rows may repeat, drop and grow."""
        layers = tuple(self.reorder_layer(layer, rows) for layer in state.layers)
        return State(state.source[rows], state.tokens[rows], state.allowed[rows], layers)

    def reorder_layer(self, layer: LayerCache, rows: Array) -> LayerCache:
        return LayerCache(
            Kept(layer.keys.array[rows]),
            Kept(layer.values.array[rows]),
            layer.memory_keys[rows],
            layer.memory_values[rows],
        )
