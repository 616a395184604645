"""Defects of the cache, of its cost, and of generation that does not use it.

Shapes: keys and values (B, H, t, d); n new tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from attest.contract import Config
from attest.judging.catalogue import defect
from attest.reference.decoding.cache import Cache, Kept, LayerCache, Room, State
from attest.reference.decoding.generator import ReferenceGenerator
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.parts.masks import Masks
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var
from attest.reference.training.trainer import ReferenceTrainer


@defect("M6.3", "M6.2a")
class cache_offset_by_one(Cache):
    """Positions skip one after the first step."""

    def offset(self, state: State) -> int:
        return min(state.length + 1, self.config.max_len - 1) if state.length else 0


@defect("M6.3", "M6.2a")
class positions_restart(Cache):
    """Every step counts positions from 0 again."""

    def offset(self, state: State) -> int:
        return 0


@defect("M6.3", "M6.2a")
class cache_not_appended(Cache):
    """The keys and values of new tokens never arrive in the cache: their places stay zero."""

    def append(self, held: Kept, new: Array) -> Kept:
        return super().append(held, np.zeros_like(new))


@defect("M6.3", "M6.2a")
class first_token_never_cached(Cache):
    """Slot 0 stays zero."""

    def append(self, held: Kept, new: Array) -> Kept:
        if held.array.shape[2] == 0:
            new = new.copy()
            new[:, :, 0] = 0.0
        return super().append(held, new)


@defect("M6.3")
class prefill_keeps_its_last_token(Cache):
    """Of a step of several tokens only the last one's keys and values are kept."""

    def append(self, held: Kept, new: Array) -> Kept:
        last = np.zeros_like(new)
        last[:, :, -1] = new[:, :, -1]
        return super().append(held, last)


@defect("M6.3")
class chunk_not_causal(Masks):
    """The tokens of a later step see each other in both directions."""

    def causal_allowed(self, T: int, S: int) -> Array:
        return super().causal_allowed(T, S) if T == S else np.ones((T, S), bool)


@defect("M6.3", "M6.2a")
class causal_top_left_in_steps(Masks):
    """The causal mask of a step is aligned at the first key, not at the last."""

    def causal_allowed(self, T: int, S: int) -> Array:
        allowed: Array = np.arange(S)[None, :] <= np.arange(T)[:, None]
        return allowed


@defect("M6.3", "M6.2a")
class keys_not_reordered(Cache):
    """Values follow a reorder, keys stay."""

    def reorder_layer(self, layer: LayerCache, rows: Array) -> LayerCache:
        stay = np.arange(len(rows)) % len(layer.memory_keys)
        return replace(super().reorder_layer(layer, rows), keys=Kept(layer.keys.array[stay]))


@defect("M6.3")
class reorder_clears_the_past(Cache):
    """A reorder forgets the values of the tokens before it."""

    def reorder_layer(self, layer: LayerCache, rows: Array) -> LayerCache:
        moved = super().reorder_layer(layer, rows)
        return replace(moved, values=Kept(np.zeros_like(moved.values.array)))


@defect("M6.3")
class memory_of_four_layers(Cache):
    """From the fifth layer on a step reads the memory of the fourth."""

    def start(self, source: Array, p: Scope) -> State:
        state = super().start(source, p)
        read = [state.layers[min(i, 3)] for i in range(len(state.layers))]
        layers = tuple(
            replace(layer, memory_keys=other.memory_keys, memory_values=other.memory_values)
            for layer, other in zip(state.layers, read)
        )
        return replace(state, layers=layers)


@defect("M6.3")
class stale_cache(Cache):
    """All decodings write into the same buffers, so a second start spoils the first."""

    def start(self, source: Array, p: Scope) -> State:
        state = super().start(source, p)
        rooms: list[Room] = self.__dict__.setdefault("rooms", [])
        B, H, _, d = state.layers[0].memory_keys.shape
        while len(rooms) < 2 * len(state.layers):
            rooms.append(Room(np.zeros((0, H, 0, d)), 0))
        for room in rooms:
            if len(room.array) != B:
                room.array = np.zeros((B, H, self.config.max_len, d))
        empty = [Kept(room.array[:, :, :0], room) for room in rooms]
        layers = tuple(
            replace(layer, keys=empty[2 * i], values=empty[2 * i + 1]) for i, layer in enumerate(state.layers)
        )
        return replace(state, layers=layers)

    def append(self, held: Kept, new: Array) -> Kept:
        room, start = held.room, held.array.shape[2]
        if room is None or len(room.array) != len(new) or room.array.shape[2] != self.config.max_len:
            return super().append(held, new)
        room.array[:, :, start : start + new.shape[2]] = new
        return Kept(room.array[:, :, : start + new.shape[2]], room)


@defect("M6.3b")
class continuations_share_their_room(Cache):
    """Keys and values are written behind those of the state, whatever another continuation wrote there."""

    def append(self, held: Kept, new: Array) -> Kept:
        if held.room is not None:
            held.room.taken = held.array.shape[2]
        return super().append(held, new)


@defect("M6.3")
class memory_of_the_first_start(Cache):
    """The source's keys and values are kept from the first start with this shape."""

    def start(self, source: Array, p: Scope) -> State:
        held: dict[Any, State] = self.__dict__.setdefault("held", {})
        if source.shape not in held:
            held[source.shape] = super().start(source, p)
        return replace(held[source.shape], source=source)


@defect("M6.3")
class memory_kept_by_all_but_the_end(Cache):
    """A source that begins as an earlier one did and differs in its last token gets that one's memory."""

    def start(self, source: Array, p: Scope) -> State:
        held: dict[Any, State] = self.__dict__.setdefault("held", {})
        key = (id(p), source.shape, source[:, :-1].tobytes())
        return held.setdefault(key, super().start(source, p))


@defect("M6.3", "M6.9")
class memory_outlives_a_load(Cache):
    """What was encoded is kept by source, also when other parameters are loaded."""

    def start(self, source: Array, p: Scope) -> State:
        held: dict[Any, State] = self.__dict__.setdefault("held", {})
        return held.setdefault((source.shape, source.tobytes()), super().start(source, p))


@defect("M6.3")
class memory_outlives_training(ReferenceTrainer):
    """The model that is trained keeps what it encoded by source, whatever steps were made since."""

    def __init__(self, model: ReferenceTransformer, config: Config) -> None:
        super().__init__(model, config)
        held: dict[Any, State] = {}
        encode: Callable[[Array], State] = model.start

        def start(source: Array) -> State:
            return held.setdefault((source.shape, source.tobytes()), encode(source))

        model.start = start  # type: ignore[method-assign]


@defect("M6.3")
class cache_overflows_silently(Cache):
    """A token beyond the last position is written over the last one."""

    def check_room(self, state: State, new: int) -> None:
        pass

    def offset(self, state: State) -> int:
        return min(state.length, self.config.max_len - 1)


@defect("M6.3")
class cache_one_token_too_small(Cache):
    """One token fewer than max_len fits."""

    def check_room(self, state: State, new: int) -> None:
        super().check_room(state, new + 1)


@defect("M6.4")
class reencodes_each_step(Cache):
    """The encoder runs again for every token."""

    def step(self, state: State, tokens: Array, p: Scope) -> tuple[Var, State]:
        self.parts.model.encode(state.source, p)
        return super().step(state, tokens, p)


@defect("M6.4")
class recomputes_prefix(Cache):
    """Every step runs the decoder over all tokens again."""

    def step(self, state: State, tokens: Array, p: Scope) -> tuple[Var, State]:
        self.check_room(state, tokens.shape[1])
        empty = replace(
            state,
            tokens=state.tokens[:, :0],
            allowed=state.allowed[:, :, :0],
            layers=tuple(
                replace(h, keys=Kept(h.keys.array[:, :, :0]), values=Kept(h.values.array[:, :, :0]))
                for h in state.layers
            ),
        )
        logits, grown = super().step(empty, np.concatenate([state.tokens, tokens], axis=1), p)
        return Var(logits.value[:, -tokens.shape[1] :]), grown


@defect("M6.5")
class cache_kept_but_unused(ReferenceGenerator):
    """The cache is filled, and the logits come from a full pass over the prefix."""

    def advance(self, state: State, tokens: Array, p: Scope | None = None) -> tuple[Array, State]:
        p = self.scope() if p is None else p
        _, grown = self.parts.cache.step(state, tokens, p)
        return self.parts.model(grown.source, grown.tokens, p).value[:, -1], grown
