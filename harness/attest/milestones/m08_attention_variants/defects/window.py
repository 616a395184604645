"""Defects of windows, in a call, through a stack and in a cache.

Shapes: distance (B, T, S) of query and key positions; keys and values (B, G, t, d).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.decoding.cache import Kept
from attest.reference.decoding.text_cache import KeysAndValues, TextCache, TextState
from attest.reference.parts.masks import Masks
from attest.reference.parts.where import Where
from attest.reference.tape import Array


def _window(masks: Masks) -> int:
    assert masks.config.window is not None
    return masks.config.window


@defect("M8.4", "M8.5")
class window_plus_one(Masks):
    """The window does not count the query itself: W + 1 keys are seen."""

    def near(self, distance: Array) -> Array:
        return np.asarray((distance >= 0) & (distance <= _window(self)))


@defect("M8.4", "M8.5")
class window_minus_one(Masks):
    """The window is one key short; one of a single key keeps it."""

    def near(self, distance: Array) -> Array:
        return np.asarray((distance >= 0) & (distance < max(1, _window(self) - 1)))


@defect("M8.4", "M8.5")
class window_ignored(Masks):
    """Every position before is seen."""

    def near(self, distance: Array) -> Array:
        return np.asarray(distance >= 0)


@defect("M8.4")
class window_ignored_in_training(Masks):
    """The path of train mode sees every position before."""

    def near(self, distance: Array) -> Array:
        return super().near(distance) if self.noise is None else np.asarray(distance >= 0)


@defect("M8.4")
class window_symmetric(Masks):
    """The window opens to both sides unless the call is causal."""

    def near(self, distance: Array) -> Array:
        return np.asarray(np.abs(distance) < _window(self))


@defect("M8.4")
class window_of_at_most_64(Masks):
    """A window beyond 64 is one of 64."""

    def near(self, distance: Array) -> Array:
        return np.asarray((distance >= 0) & (distance < min(_window(self), 64)))


@defect("M8.4")
class window_in_whole_tiles(Masks):
    """A window beyond 32 ends with its tile: it is rounded up to a multiple of 32."""

    def near(self, distance: Array) -> Array:
        W = _window(self)
        return np.asarray((distance >= 0) & (distance < (W if W <= 32 else -(-W // 32) * 32)))


class _BothSides(Masks):
    """A window that is wrong only where it opens to both sides."""

    def reach(self) -> tuple[int, int]:
        """How many positions before and behind the query are seen."""
        raise NotImplementedError

    def near(self, distance: Array) -> Array:
        if self.config.window_sides == "before":
            return super().near(distance)
        before, behind = self.reach()
        return np.asarray((distance >= -behind) & (distance <= before))


@defect("M8.4a")
class second_side_ignored(_BothSides):
    """The window looks back alone."""

    def reach(self) -> tuple[int, int]:
        return _window(self) - 1, 0


@defect("M8.4a")
class both_sides_one_more(_BothSides):
    """W positions on either side beside the query's own."""

    def reach(self) -> tuple[int, int]:
        return _window(self), _window(self)


@defect("M8.4a")
class window_split_between_sides(_BothSides):
    """W is the width of both sides together."""

    def reach(self) -> tuple[int, int]:
        return _window(self) // 2, (_window(self) - 1) // 2


@defect("M8.4a")
class side_behind_one_short(_BothSides):
    """Behind the query one position fewer is seen than before it."""

    def reach(self) -> tuple[int, int]:
        return _window(self) - 1, max(0, _window(self) - 2)


@defect("M8.4")
class window_without_itself(Masks):
    """The query's own key is hidden where another is in the window."""

    def near(self, distance: Array) -> Array:
        near = super().near(distance)
        alone = near.sum(axis=-1, keepdims=True) == 1
        return np.asarray(near & ((distance != 0) | alone))


@defect("M8.4")
class window_in_blocks(Masks):
    """Attention is cut into blocks of W positions: a query sees its own block alone."""

    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        seen = super().within_window(mask, where, T, S)
        if seen is None or self.config.window is None:
            return seen
        queries, keys = where.queries(T), where.keys(T, S)
        same = queries[:, :, None] // self.config.window == keys[:, None, :] // self.config.window
        return np.asarray(seen & same)


@defect("M8.4")
class window_by_index(Masks):
    """The window counts indices, whatever positions were given."""

    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        by_index = where.but(positions=None, key_positions=None) if where.place == "heads" else where
        return super().within_window(mask, by_index, T, S)


@defect("M8.4")
class window_replaces_the_mask(Masks):
    """Where there is a window, a mask that was given is dropped."""

    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        hides = None if self.config.window is not None and where.place == "heads" else mask
        return super().within_window(hides, where, T, S)


@defect("M8.4")
class window_of_the_first_component(Masks):
    """The window of the first component of a length is kept for all of that length."""

    kept: dict[int, int] = {}  # noqa: RUF012

    def near(self, distance: Array) -> Array:
        first = self.kept.setdefault(distance.shape[-1], _window(self))
        return np.asarray((distance >= 0) & (distance < first))


@defect("M8.5")
class window_on_some_layers(Masks):
    """Every second layer sees everything before, as in models that mix both kinds."""

    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        if where.layer is not None and where.layer % 2:
            return mask
        return super().within_window(mask, where, T, S)


@defect("M8.5")
class global_layer_forgotten(Masks):
    """The last of several layers has a window of 1: what it should pass on stays behind."""

    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        last = self.config.num_decoder_layers - 1
        if where.layer is None or where.layer != last or self.config.window is None:
            return super().within_window(mask, where, T, S)
        own = where.queries(T)[:, :, None] == where.keys(T, S)[:, None, :]
        return own if mask is None else np.asarray(own & np.asarray(mask, bool))


@defect("M8.6")
class window_ignored_in_step(TextCache):
    """A cached step sees everything that was read."""

    def place(self, state: TextState, positions: Array) -> Where:
        return super().place(state, positions).but(place="cross")


@defect("M8.6")
class top_left_window(Masks):
    """In a step the window is counted from the first key: the newest tokens fall out of it."""

    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        if T == S or self.config.window is None or where.place == "cross":
            return super().within_window(mask, where, T, S)
        near = self.near(np.arange(T)[None, :, None] - np.arange(S)[None, None, :])
        return near if mask is None else np.asarray(near & np.asarray(mask, bool))


class _Ring(TextCache):
    """A cache that forgets: of a layer's keys only those in `kept` are left, the others are zero."""

    def forgotten(self, length: int, new: int) -> Array:
        """(length): True at tokens that the ring no longer holds when `new` tokens have come."""
        raise NotImplementedError

    def append(self, held: Kept, new: Array) -> Kept:
        grown = super().append(held, new)
        if self.config.window is None:
            return grown
        gone = self.forgotten(grown.array.shape[2], new.shape[2])
        return Kept(np.where(gone[:, None], 0.0, grown.array))


@defect("M8.6")
class ring_dropped_on_chunk(_Ring):
    """A chunk overwrites the ring before its first tokens have read what they still see."""

    def forgotten(self, length: int, new: int) -> Array:
        assert self.config.window is not None
        return np.arange(length) < length - self.config.window


@defect("M8.6")
class evicts_one_early(_Ring):
    """The ring holds one key fewer than the window."""

    def forgotten(self, length: int, new: int) -> Array:
        assert self.config.window is not None
        oldest = length - new - (self.config.window - 2)
        return np.arange(length) < (oldest if self.config.window > 1 else 0)


@defect("M8.6")
class keeps_only_the_last_step(_Ring):
    """A step sees its own tokens and nothing of the cache once the window has been filled."""

    def forgotten(self, length: int, new: int) -> Array:
        assert self.config.window is not None
        full = length - new >= self.config.window > 1
        return (np.arange(length) < length - new) & full


@defect("M8.6")
class ring_order_by_slot(TextCache):
    """Behind the wrap keys are read in the order of their slots: each has the position of another."""

    def place(self, state: TextState, positions: Array) -> Where:
        where = super().place(state, positions)
        W = self.config.window
        if W is None or state.length <= W:
            return where
        start = state.length - W
        slots = start + (np.arange(W) - start) % W
        keys = state.positions.copy()
        keys[:, start:] = state.positions[:, slots]
        return where.but(key_positions=keys)


@defect("M8.6")
class never_evicts(TextCache):
    """What falls out of the window is never dropped, and counts again from twice the window on."""

    def place(self, state: TextState, positions: Array) -> Where:
        where = super().place(state, positions)
        W = self.config.window
        if W is None or state.length <= 2 * W:
            return where
        keys = state.positions.copy()
        keys[:, 0] = positions[:, 0]
        return where.but(key_positions=keys)


@defect("M8.6")
class rewind_keeps_the_ring(TextCache):
    """Taking tokens back leaves their keys in the cache, where the next tokens find them."""

    def rewind(self, state: TextState, count: int) -> TextState:
        back = super().rewind(state, count)
        if self.config.window is None or not count:
            return back
        stale = tuple(_shifted(old, layer) for old, layer in zip(state.layers, back.layers))
        return replace(back, layers=stale)


def _shifted(old: KeysAndValues, kept: KeysAndValues) -> KeysAndValues:
    """The newest keys of `old` where those of `kept` should be."""
    n = kept.keys.array.shape[2]
    return KeysAndValues(Kept(old.keys.array[:, :, -n:] if n else kept.keys.array), kept.values)


@defect("M8.6")
class window_counts_steps(TextCache):
    """In a step of several tokens all have the window of the first."""

    def place(self, state: TextState, positions: Array) -> Where:
        where = super().place(state, positions)
        if self.config.window is None:
            return where
        earliest = positions[:, :1] - self.config.window
        far = state.positions <= earliest
        return where.but(positions=np.where(far.any(), positions[:, :1] + 0 * positions, positions))


@defect("M8.17")
class window_of_zero_sees_all(ReferenceComponent):
    """A window that is no size is taken for none."""

    def check_config(self) -> None:
        W = self.config.window
        if "window" in self.reads and W is not None and (not isinstance(W, int) or W < 1):
            self.config = self.config.but(window=None)
            self.parts = self.parts.but(window=None)
        super().check_config()


@defect("M8.6")
class ring_of_64_slots(TextCache):
    """A cache keeps the last 64 tokens, whatever the window is."""

    def place(self, state: TextState, positions: Array) -> Where:
        slots = np.arange(state.length)
        held = slots >= state.length - max(64, positions.shape[1])
        return super().place(replace(state, real=state.real & held), positions)
