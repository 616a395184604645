"""The cache of a decoder-only model: a prompt is a step, a step may be taken back.

Shapes: B rows, G key heads, t tokens so far, n new tokens, d width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attest.reference.decoding.cache import Kept
from attest.reference.parts.part import Part
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf


@dataclass(frozen=True)
class KeysAndValues:
    """Of one layer: (B, G, t, d) each."""

    keys: Kept
    values: Kept

    def picked(self, rows: Array) -> KeysAndValues:
        """Of these rows."""
        return KeysAndValues(Kept(self.keys.array[rows]), Kept(self.values.array[rows]))

    def shortened(self, length: int) -> KeysAndValues:
        """The first `length` tokens."""
        return KeysAndValues(Kept(self.keys.array[:, :, :length]), Kept(self.values.array[:, :, :length]))


@dataclass(frozen=True)
class TextState:
    """What is known of the tokens read so far; padding is kept and hidden."""

    tokens: Array  # (B, t)
    real: Array  # (B, t), False at padding
    positions: Array  # (B, t)
    layers: tuple[KeysAndValues, ...]

    @property
    def length(self) -> int:
        return int(self.tokens.shape[1])

    @property
    def counts(self) -> Array:
        """(B): the real tokens of each row."""
        counts: Array = self.real.sum(axis=1)
        return counts


class TextCache(Part):
    """Start, step, reorder, rewind."""

    def start(self, rows: int) -> TextState:
        """Rows without a token."""
        shape = (rows, self.config.kv_heads, 0, self.config.d_head)
        empty = KeysAndValues(Kept(np.zeros(shape)), Kept(np.zeros(shape)))
        nothing = np.zeros((rows, 0), dtype=np.int64)
        return TextState(nothing, nothing.astype(bool), nothing, (empty,) * self.config.num_decoder_layers)

    def check_room(self, positions: Array) -> None:
        longest = int(positions.max(initial=0)) + 1
        if longest > self.config.max_len and self.config.ends_at_max_len:
            raise ValueError(
                f"length={longest} exceeds max_len={self.config.max_len}; stop earlier or raise max_len"
            )

    def new_positions(self, state: TextState, real: Array) -> Array:
        """(B, n): where the new tokens stand."""
        return self.parts.language_model.positions(real, state.counts)

    def step(self, state: TextState, tokens: Array, p: Scope) -> tuple[Var, TextState]:
        """Logits (B, n, V) of the new tokens, and the state that includes them."""
        model = self.parts.language_model
        new = model.real(tokens)
        positions = self.new_positions(state, new)
        self.check_room(positions)
        grown = replace(
            state,
            tokens=np.concatenate([state.tokens, tokens], axis=1),
            real=np.concatenate([state.real, new], axis=1),
            positions=np.concatenate([state.positions, positions], axis=1),
        )
        where = self.place(grown, positions)
        x, layers = self.stack(model, tokens, state, p, where)
        return model.logits(x, p), replace(grown, layers=layers)

    def place(self, state: TextState, positions: Array) -> Where:
        """Where the new tokens stand, and what they may see of all."""
        return Where(
            state.real[:, None, :], place="decoder", positions=positions, key_positions=state.positions
        )

    def stack(
        self, model: Part, tokens: Array, state: TextState, p: Scope, where: Where
    ) -> tuple[Var, tuple[KeysAndValues, ...]]:
        """The new tokens through all layers, and what each layer keeps."""
        layers, inner = self.parts.layers, p.at("decoder")
        x, kept = self.parts.embedding.of_model(tokens, p, where), []
        where = layers.in_stack(inner, where)
        for i, held in enumerate(state.layers):
            x, grown = self.cached_layer(x, held, layers.layer_scope(inner, i), where.but(layer=i))
            kept.append(grown)
        return layers.final_norm(x, inner), tuple(kept)

    def cached_layer(self, x: Var, held: KeysAndValues, p: Scope, where: Where) -> tuple[Var, KeysAndValues]:
        """A causal layer over the new tokens alone."""
        own, past = p.at("self_attention"), where.but(causal=True)
        grown = [held]

        def attend_to_past(y: Var) -> Var:
            grown.append(self.grow(held, y, own, past))
            return self.attended(grown[-1], y, own, past)

        return self.parts.layers.causal_block(x, attend_to_past, p), grown[-1]

    def attended(self, grown: KeysAndValues, y: Var, p: Scope, where: Where) -> Var:
        """What the new tokens read of all keys and values."""
        k, v = leaf(grown.keys.array), leaf(grown.values.array)
        return self.parts.heads.attend(y, k, v, p, where)["output"]

    def grow(self, held: KeysAndValues, y: Var, p: Scope, where: Where) -> KeysAndValues:
        """The keys and values of the new tokens, behind the old ones."""
        k, v = self.parts.heads.keys_and_values(y, p, where)
        return KeysAndValues(self.append(held.keys, k.value), self.append(held.values, v.value))

    def append(self, held: Kept, new: Array) -> Kept:
        return held.appended(new)

    def reorder(self, state: TextState, rows: Array) -> TextState:
        """Row i of the result is row rows[i]; rows may repeat, drop and grow."""
        layers = tuple(layer.picked(rows) for layer in state.layers)
        return TextState(state.tokens[rows], state.real[rows], state.positions[rows], layers)

    def rewind(self, state: TextState, count: int) -> TextState:
        """Without the last `count` tokens of every row."""
        length = state.length - count
        layers = tuple(layer.shortened(length) for layer in state.layers)
        return TextState(
            state.tokens[:, :length], state.real[:, :length], state.positions[:, :length], layers
        )
