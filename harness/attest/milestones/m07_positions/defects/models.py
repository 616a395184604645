"""Defects of positions in a model: counted in the wrong place, or turned at the wrong time.

Shapes: B rows, G key heads, t tokens so far, n new tokens, d width of a head.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.decoding.cache import Kept
from attest.reference.decoding.text_cache import KeysAndValues, TextCache, TextState
from attest.reference.models.decoder_only import DecoderOnly
from attest.reference.parts.relative_positions import Rotary
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf


@defect("M7.6")
class offset_missing_in_step(TextCache):
    """The tokens of a step count from 0."""

    def new_positions(self, state: TextState, real: Array) -> Array:
        return self.parts.language_model.positions(real, np.zeros(len(real), np.int64))


@defect("M7.6")
class padding_counted_in_step(TextCache):
    """The tokens of a step count all that came before, padding too."""

    def new_positions(self, state: TextState, real: Array) -> Array:
        return self.parts.language_model.positions(real, np.full(len(real), state.length))


@defect("M7.6")
class step_positions_of_the_first_row(TextCache):
    """All rows of a step stand where the first row stands."""

    def new_positions(self, state: TextState, real: Array) -> Array:
        found = super().new_positions(state, real)
        return np.repeat(found[:1], len(found), axis=0) if state.length else found


@defect("M7.6")
class cache_rotates_twice(TextCache):
    """New keys are turned before they are kept, and once more."""

    def grow(self, held: KeysAndValues, y: Var, p: Scope, where: Where) -> KeysAndValues:
        k, v = self.parts.heads.keys_and_values(y, p, where)
        again = self.parts.positions.rotate(k, where)
        return KeysAndValues(self.append(held.keys, again.value), self.append(held.values, v.value))


@defect("M7.6")
class rotates_cached_keys_again(TextCache):
    """Every step turns the keys that the cache already holds turned."""

    def grow(self, held: KeysAndValues, y: Var, p: Scope, where: Where) -> KeysAndValues:
        assert where.key_positions is not None
        past = where.but(positions=where.key_positions[:, : held.keys.array.shape[2]])
        again = self.parts.positions.rotate(leaf(held.keys.array), past)
        return super().grow(KeysAndValues(Kept(again.value), held.values), y, p, where)


@defect("M7.6")
class queries_turned_from_zero_in_steps(TextCache):
    """Keys are kept where they stand; the queries of a step are turned as if it were the first."""

    def attended(self, grown: KeysAndValues, y: Var, p: Scope, where: Where) -> Var:
        assert where.positions is not None
        counted = where.positions - where.positions[:, :1]
        return super().attended(grown, y, p, where.but(positions=counted))


@defect("M7.6")
class positions_by_index(DecoderOnly):
    """A token's position is its place in the array, padding counted."""

    def positions(self, real: Array, before: Array) -> Array:
        return before[:, None] + np.arange(real.shape[1])


@defect("M7.6")
class positions_of_the_first_row(DecoderOnly):
    """Every row has the positions of the first."""

    def positions(self, real: Array, before: Array) -> Array:
        found = super().positions(real, before)
        return np.repeat(found[:1], len(found), axis=0)


@defect("M7.13")
class cache_of_max_len(TextCache):
    """A cache keeps the last max_len tokens, also where positions go on."""

    def place(self, state: TextState, positions: Array) -> Where:
        slots = np.arange(state.length)
        held = slots >= state.length - max(self.config.max_len, positions.shape[1])
        return super().place(replace(state, real=state.real & held), positions)


@defect("M7.13")
class silent_wrap(Rotary):
    """In a model rotary positions begin again behind max_len."""

    def rotate(self, x: Var, where: Where) -> Var:
        if where.place != "decoder" or where.positions is None:
            return super().rotate(x, where)
        return super().rotate(x, where.but(positions=where.positions % self.config.max_len))


@defect("M7.13")
class every_kind_ends(ReferenceComponent):
    """Positions that could go on are refused behind max_len."""

    def check_length(self, name: str, length: int) -> None:
        if length > self.config.max_len:
            raise ValueError(f"{name} length={length} exceeds max_len={self.config.max_len}; shorten it")


@defect("M7.13")
class keeps_the_last_tokens(ReferenceComponent):
    """Of an input that is too long for the table the first tokens are dropped in silence."""

    def accept(self, inputs: Any) -> dict[str, Any]:
        if self.operation == "language_model" and self.config.ends_at_max_len:
            inputs = {**inputs, "ids": np.asarray(inputs["ids"])[:, -self.config.max_len :]}
        return super().accept(inputs)
