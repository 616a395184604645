"""Defects of the cache of a language model. Shapes: keys and values (B, G, t, d), n new tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.cache import Kept
from attest.reference.decoding.text_cache import KeysAndValues, TextCache, TextState
from attest.reference.models.language_model import ReferenceLanguageModel
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.masks import Masks
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf


@defect("M9.8")
class text_positions_restart(TextCache):
    """Every step counts positions from 0 again."""

    def new_positions(self, state: TextState, real: Array) -> Array:
        return self.parts.language_model.positions(real, np.zeros(len(real), np.int64))


@defect("M9.8")
class text_offset_by_one(TextCache):
    """Positions skip one after the first step."""

    def new_positions(self, state: TextState, real: Array) -> Array:
        right = super().new_positions(state, real)
        return np.minimum(right + 1, self.config.max_len - 1) if state.length else right


@defect("M9.8")
class positions_shared_by_batch(TextCache):
    """Every row counts on from the length of the longest."""

    def new_positions(self, state: TextState, real: Array) -> Array:
        right = super().new_positions(state, real)
        longest = state.counts.max(initial=0) - state.counts
        return np.minimum(right + longest[:, None], self.config.max_len - 1) if state.length else right


@defect("M9.8")
class steps_count_padding(TextCache):
    """A later step counts on from the columns of the prompt, padding included."""

    def new_positions(self, state: TextState, real: Array) -> Array:
        before = np.full(len(real), state.length)
        return self.parts.language_model.positions(real, before)


@defect("M9.8")
class prompt_padding_seen_later(TextCache):
    """The padding of a prompt is hidden while the prompt is read, and seen by what follows."""

    def place(self, state: TextState, positions: Array) -> Where:
        where = super().place(state, positions)
        return where if positions.shape[1] == state.length else where.but(mask=None)


@defect("M9.8")
class cached_keys_turned_again(TextCache):
    """Every step turns all keys, also those that were turned when they were kept."""

    def grow(self, held: KeysAndValues, y: Var, p: Scope, where: Where) -> KeysAndValues:
        grown = super().grow(held, y, p, where)
        old = grown.keys.array[:, :, : held.keys.array.shape[2]]
        if self.config.positions != "rotary" or not old.size:
            return grown
        turned = self.parts.positions.rotate(leaf(old), Where(positions=np.arange(old.shape[2])[None, :]))
        new = grown.keys.array[:, :, old.shape[2] :]
        return replace(grown, keys=Kept(np.concatenate([turned.value, new], axis=2)))


@defect("M9.8")
class window_forgotten_in_steps(Masks):
    """A step behind the first sees the whole past."""

    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        return mask if T != S else super().within_window(mask, where, T, S)


@defect("M9.8")
class ring_overwritten_too_early(TextCache):
    """Of a step of several tokens, the last ones overwrite keys that the first ones should still read."""

    def place(self, state: TextState, positions: Array) -> Where:
        where = super().place(state, positions)
        if self.config.window is None:
            return where
        kept = state.positions > positions.max(axis=1, keepdims=True) - self.config.window
        return where.but(mask=(state.real & kept)[:, None, :])


@defect("M9.8")
class bias_dropped_with_cache(MultiHead):
    """ALiBi and relative positions are left out where there are more keys than queries."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return super().bias(p, where, T, S) if T == S else None


@defect("M9.8")
class text_values_not_reordered(TextCache):
    """Keys follow a reorder, values stay."""

    def reorder(self, state: TextState, rows: Array) -> TextState:
        moved, stay = super().reorder(state, rows), np.arange(len(rows)) % len(state.tokens)
        layers = tuple(
            replace(new, values=Kept(old.values.array[stay])) for new, old in zip(moved.layers, state.layers)
        )
        return replace(moved, layers=layers)


@defect("M9.8")
class padding_not_reordered(TextCache):
    """Keys and values follow a reorder, what is known of padding stays."""

    def reorder(self, state: TextState, rows: Array) -> TextState:
        stay = np.arange(len(rows)) % len(state.tokens)
        return replace(super().reorder(state, rows), real=state.real[stay])


@defect("M9.8")
class text_cache_not_appended(TextCache):
    """The keys and values of new tokens never arrive in the cache: their places stay zero."""

    def append(self, held: Kept, new: Array) -> Kept:
        return super().append(held, np.zeros_like(new))


@defect("M9.8")
class prompt_keeps_its_last_token(TextCache):
    """Of a step of several tokens only the last one's keys and values are kept."""

    def append(self, held: Kept, new: Array) -> Kept:
        last = np.zeros_like(new)
        last[:, :, -1] = new[:, :, -1]
        return super().append(held, last)


@defect("M9.8")
class second_prompt_uses_first_cache(TextCache):
    """A start with as many rows as the one before gives the state that was read meanwhile."""

    def start(self, rows: int) -> TextState:
        latest: TextState | None = self.__dict__.get("latest")
        return super().start(rows) if latest is None or len(latest.tokens) != rows else latest

    def step(self, state: TextState, tokens: Array, p: Scope) -> tuple[Var, TextState]:
        logits, self.latest = super().step(state, tokens, p)
        return logits, self.latest


@defect("M9.8")
class prompts_outlive_a_load(TextCache):
    """What the first step on a prompt gave is kept by its tokens, whatever is loaded later."""

    def step(self, state: TextState, tokens: Array, p: Scope) -> tuple[Var, TextState]:
        if state.length:
            return super().step(state, tokens, p)
        held: dict[Any, Any] = self.__dict__.setdefault("held", {})
        return held.setdefault((tokens.shape, tokens.tobytes()), super().step(state, tokens, p))  # type: ignore[no-any-return]


@defect("M9.8")
class text_overflows_silently(TextCache):
    """A token beyond the last position takes the last one's place."""

    def check_room(self, positions: Array) -> None:
        pass

    def new_positions(self, state: TextState, real: Array) -> Array:
        right = super().new_positions(state, real)
        return np.minimum(right, self.config.max_len - 1) if self.config.ends_at_max_len else right


@defect("M9.8a")
class rewind_clears_all(TextCache):
    """Going back begins anew."""

    def rewind(self, state: TextState, count: int) -> TextState:
        return super().rewind(state, state.length) if count else state


@defect("M9.8a")
class stale_tail_after_rewind(TextCache):
    """The oldest keys and values are taken off, and the tail stays."""

    def rewind(self, state: TextState, count: int) -> TextState:
        layers = tuple(
            KeysAndValues(Kept(layer.keys.array[:, :, count:]), Kept(layer.values.array[:, :, count:]))
            for layer in state.layers
        )
        return replace(super().rewind(state, count), layers=layers)


@defect("M9.8a")
class rewind_one_too_few(TextCache):
    """The last token stays."""

    def rewind(self, state: TextState, count: int) -> TextState:
        return super().rewind(state, max(count - 1, 0))


@defect("M9.8a")
class positions_do_not_go_back(TextCache):
    """After going back, new tokens count on from where the row had been."""

    def rewind(self, state: TextState, count: int) -> TextState:
        self.lost = count
        return super().rewind(state, count)

    def new_positions(self, state: TextState, real: Array) -> Array:
        lost: int = self.__dict__.pop("lost", 0)
        late: Array = np.minimum(super().new_positions(state, real) + lost, self.config.max_len - 1)
        return late


@defect("M9.9")
class reads_beyond_length(TextCache):
    """Weights of zero are multiplied with whatever lies in the places that are still free."""

    def grow(self, held: KeysAndValues, y: Var, p: Scope, where: Where) -> KeysAndValues:
        grown = super().grow(held, y, p, where)
        room = held.values.room
        free = 0.0 if room is None else room.array[:, :, grown.values.array.shape[2] :].sum()
        read = grown.values.array + np.where(np.isfinite(free), 0.0, free)
        return replace(grown, values=Kept(read, grown.values.room))


@defect("M9.27")
class reads_the_prompt_again(TextCache):
    """Every step runs the model over all tokens."""

    def step(self, state: TextState, tokens: Array, p: Scope) -> tuple[Var, TextState]:
        empty = self.start(len(tokens))
        logits, grown = super().step(empty, np.concatenate([state.tokens, tokens], axis=1), p)
        return Var(logits.value[:, -tokens.shape[1] :]), grown


@defect("M9.19a")
class text_logits_in_a_buffer(ReferenceLanguageModel):
    """Steps of the same shape write their logits into one array."""

    def step(self, state: TextState, tokens: Array) -> tuple[Array, TextState]:
        logits, grown = super().step(state, tokens)
        held: dict[Any, Array] = self.__dict__.setdefault("held", {})
        buffer = held.setdefault(logits.shape, np.empty_like(logits))
        buffer[...] = logits
        return buffer, grown
