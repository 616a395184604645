"""Correct ways to generate that look unusual. Shapes: B rows, H heads, t tokens so far, V vocabulary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import variant
from attest.reference.decoding.cache import Cache, Kept, State
from attest.reference.decoding.generator import Hypothesis, ReferenceGenerator
from attest.reference.decoding.sampling import Sampling, normalised
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@variant("M6", spared=("M6.4",))
class prefix_run_again(Cache):
    """The state is the tokens alone: every step runs the decoder over all of them. Right, and slow."""

    def step(self, state: State, tokens: Array, p: Scope) -> tuple[Var, State]:
        self.check_room(state, tokens.shape[1])
        read = np.concatenate([state.tokens, tokens], axis=1)
        logits = self.parts.model(state.source, read, p).value[:, -tokens.shape[1] :]
        allowed = np.concatenate([state.allowed, self.parts.model.target_mask(tokens)], axis=2)
        return Var(logits), replace(state, tokens=read, allowed=allowed)

    def reorder(self, state: State, rows: Array) -> State:
        return State(state.source[rows], state.tokens[rows], state.allowed[rows], ())


@variant("M6")
class ring_buffer(Cache):
    """Keys and values lie in a ring and are read out in the order of their positions."""

    def append(self, held: Kept, new: Array) -> Kept:
        start, count, size = held.array.shape[2], new.shape[2], self.config.max_len
        ring = np.zeros((*new.shape[:2], size, new.shape[3]))
        first = 5 % size
        places = (first + np.arange(start + count)) % size
        ring[:, :, places[:start]] = held.array
        ring[:, :, places[start:]] = new
        return Kept(ring[:, :, places])


@variant("M6")
class cache_by_concatenation(Cache):
    """Every step joins old and new keys into a new array."""

    def append(self, held: Kept, new: Array) -> Kept:
        return Kept(np.concatenate([held.array, new], axis=2))


@variant("M6")
class ended_rows_stay(ReferenceGenerator):
    """Rows that have ended stay in the batch, are fed padding, and what they say is thrown away."""

    def walk(self, source: Array, max_len: int, chosen: dict[str, Any]) -> list[Hypothesis]:
        draws = [np.random.default_rng([chosen["seed"], row]) for row in range(len(source))]
        rows = [Hypothesis(row) for row in range(len(source))]
        logits, state = self.begin(source)
        for step in range(max_len):
            logs = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
            logs -= logits.max(-1, keepdims=True)
            tokens = self.choose(logits, rows, draws, chosen)
            going = [not h.tokens or not self.ends(h.tokens[-1]) for h in rows]
            rows = [
                h.followed_by(t, float(logs[i, t])) if on else h
                for i, (h, t, on) in enumerate(zip(rows, tokens, going))
            ]
            fed = [t if on else self.config.pad_id for t, on in zip(tokens, going)]
            if all(self.ends(h.tokens[-1]) for h in rows) or step == max_len - 1:
                break
            logits, state = self.advance(state, np.array(fed, dtype=np.int64)[:, None])
        return rows


@variant("M6", spared=("M6.2b",))  # columns of padding alone are a should that it leaves open
class full_length_output(ReferenceGenerator):
    """Tokens always have room for max_len of them, padded."""

    def __call__(self, *, source: Array, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        seen = super().__call__(source=source, max_len=max_len, **settings)
        wider = max_len - seen["tokens"].shape[-1]
        pad = self.config.pad_id
        seen["tokens"] = np.pad(seen["tokens"], ((0, 0), (0, 0), (0, wider)), constant_values=pad)
        return seen


@variant("M6")
class row_by_row(ReferenceGenerator):
    """Every source is searched alone."""

    def search(
        self, source: Array, max_len: int, chosen: dict[str, Any]
    ) -> list[list[tuple[Hypothesis, float]]]:
        if chosen["method"] == "sample":
            return super().search(source, max_len, chosen)
        return [super(row_by_row, self).search(row[None], max_len, chosen)[0] for row in source]


@variant("M6", spared=("M6.7b",))  # which of equals is kept is a should that it leaves open
class top_k_by_threshold(Sampling):
    """The k-th largest logit is found by a partial sort, and whatever reaches it is kept."""

    def keep_top_k(self, logits: Array, top_k: int) -> Array:
        k = min(top_k, logits.shape[-1])
        kept: Array = logits >= np.partition(logits, -k, axis=-1)[:, -k][:, None]
        return kept


@variant("M6")
class top_p_from_the_tail(Sampling):
    """Tokens are cut off from the least likely on, as long as what is left reaches p."""

    def keep_top_p(self, probabilities: Array, top_p: float) -> Array:
        kept = np.ones(probabilities.shape, dtype=bool)
        for row, p in enumerate(probabilities):
            for token in np.argsort(p, kind="stable"):
                kept[row, token] = False
                if top_p >= 1.0 or p[kept[row]].sum() < top_p:
                    kept[row, token] = True
                    break
        return kept


@variant("M6")
class temperature_in_single_precision(Sampling):
    """Logits are divided and exponentiated in float32 where they came in float32."""

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        if np.asarray(logits).dtype != np.float32 or temperature < 1e-6 or top_k or top_p:
            return super().next_token_distribution(logits, temperature, top_k, top_p)
        return normalised(np.asarray(logits) / np.float32(temperature))


@variant("M6")
class beam_sorted_by_python(ReferenceGenerator):
    """Candidates come from sorting tuples, the highest id first among equals."""

    def best(
        self, live: list[Hypothesis], logs: Array, places: list[int], count: int
    ) -> list[tuple[int, int]]:
        all_of_them = [
            (live[place].log_probability + float(logs[place, token]), place, token)
            for place in places
            for token in range(logs.shape[-1])
        ]
        return [(place, token) for _, place, token in sorted(all_of_them, reverse=True)[:count]]


@variant("M6")
class memory_kept_until_a_load(ReferenceTransformer):
    """A source that was encoded before is not encoded again until other parameters are loaded."""

    def start(self, source: Array) -> State:
        held: dict[Any, State] = self.__dict__.setdefault("held", {})
        key = (source.shape, source.tobytes())
        if key not in held:
            held[key] = super().start(source)
        return held[key]

    def load(self, parameters: Arrays) -> None:
        self.__dict__.pop("held", None)
        super().load(parameters)


@variant("M6", spared=("M6.7b",))
class top_k_by_its_threshold(Sampling):
    """Every token whose logit reaches the k-th largest is kept, so that equal ones can be more than k."""

    def keep_top_k(self, logits: Array, top_k: int) -> Array:
        kth = -np.sort(-logits, axis=-1)[:, min(top_k, logits.shape[-1]) - 1][:, None]
        kept: Array = logits >= kth
        return kept


@variant("M6", spared=("M6.7b",))
class last_of_equals_is_kept(Sampling):
    """Among equal logits the highest id comes first, at temperature 0 and in top-k."""

    def best_only(self, logits: Array) -> Array:
        return super().best_only(logits[:, ::-1])[:, ::-1]

    def keep_top_k(self, logits: Array, top_k: int) -> Array:
        return super().keep_top_k(logits[:, ::-1], top_k)[:, ::-1]


@variant("M6", spared=("M6.1a",))
class last_of_equals_is_written(ReferenceGenerator):
    """Greedy takes the highest id among equal logits."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: list[np.random.Generator], chosen: dict[str, Any]
    ) -> list[int]:
        if chosen["method"] != "greedy":
            return super().choose(logits, live, draws, chosen)
        return [logits.shape[-1] - 1 - int(i) for i in logits[:, ::-1].argmax(axis=-1)]
