"""Greedy search, beam search and sampling over the cached decoder.

Shapes: B batch, K results, L tokens, V vocabulary, R live rows (a row is one open hypothesis).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture
from attest.reference.component import ReferenceComponent
from attest.reference.decoding.cache import State
from attest.reference.decoding.sampling import log_normalised
from attest.reference.scope import Scope
from attest.reference.tape import Array
from attest.reference.validation import check_size


@dataclass(frozen=True)
class Hypothesis:
    """Tokens written, their summed log-probability, and the row of the batch they belong to."""

    row: int
    tokens: tuple[int, ...] = ()
    log_probability: float = 0.0

    def followed_by(self, token: int, log_probability: float) -> Hypothesis:
        return Hypothesis(self.row, (*self.tokens, token), self.log_probability + log_probability)


class ReferenceGenerator(ReferenceComponent):
    """The contract's Generator. Always in evaluation mode, whatever the component's mode is."""

    architecture: ClassVar[Architecture] = ENCODER_DECODER

    @property
    def cache(self) -> Any:
        """The part that starts, steps and reorders."""
        return self.parts.cache

    def __call__(self, *, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        name = self.architecture.prompt_keyword
        prompt = settings.pop(name)
        chosen = {**self.defaults(), **settings}
        self.check_settings(max_len, **chosen)
        prompt = self.aligned(self.accept({name: prompt})[name])
        with np.errstate(all="ignore"):
            results = self.search(prompt, max_len, chosen)
        return self.packed(results, chosen)

    def aligned(self, prompt: Array) -> Array:
        """Padding where the model wants it: behind a prompt that is read apart, before one it continues."""
        return prompt if self.architecture.starts_from_rows else self.left_aligned(prompt)

    def left_aligned(self, prompt: Array) -> Array:
        """Padding before a sequence goes behind it: positions count from the first real token."""
        leading = (prompt != self.config.pad_id).argmax(axis=1)
        return np.stack([np.roll(row, -int(by)) for row, by in zip(prompt, leading)])

    def defaults(self) -> dict[str, Any]:
        return {
            "width": 4,
            "num_results": 1,
            "alpha": 0.6,
            "method": "beam",
            "temperature": 1.0,
            "top_k": None,
            "top_p": None,
            "seed": 0,
        }

    def check_settings(
        self,
        max_len: int,
        *,
        width: int,
        num_results: int,
        alpha: float,
        method: str,
        temperature: float,
        top_k: int | None,
        top_p: float | None,
        seed: int,
    ) -> None:
        if method not in ("greedy", "beam", "sample"):
            raise ValueError(f"method={method!r} is not known; choose greedy, beam or sample")
        self.check_limit(max_len)
        self.check_width(width)
        check_size("num_results", num_results)
        if num_results > (width if method == "beam" else 1):
            raise ValueError(f"num_results={num_results} exceeds width={width} of {method}; ask for fewer")
        if not math.isfinite(alpha):
            raise ValueError(f"alpha={alpha} must be finite; use 0 for no length penalty")
        self.parts.sampling.check_sampling(temperature, top_k, top_p)

    def check_limit(self, max_len: int) -> None:
        check_size("max_len", max_len)
        if max_len > self.config.max_len:
            raise ValueError(
                f"max_len={max_len} exceeds the {self.config.max_len} positions of the model; ask for less"
            )

    def check_width(self, width: int) -> None:
        check_size("width", width)

    def search(
        self, prompt: Array, max_len: int, chosen: dict[str, Any]
    ) -> list[list[tuple[Hypothesis, float]]]:
        """For each row of the batch its results with their scores, best first."""
        if chosen["method"] == "beam":
            return self.beam(prompt, max_len, chosen["width"], chosen["num_results"], chosen["alpha"])
        ended = self.walk(prompt, max_len, chosen)
        return [[(hypothesis, hypothesis.log_probability)] for hypothesis in ended]

    def packed(
        self, results: list[list[tuple[Hypothesis, float]]], chosen: dict[str, Any]
    ) -> dict[str, Array]:
        """tokens (B, K, L) filled up with padding, scores (B, K); a missing result scores -inf."""
        K = chosen["num_results"]
        length = max((len(h.tokens) for row in results for h, _ in row), default=0)
        tokens = np.full((len(results), K, length), self.config.pad_id, dtype=np.int64)
        scores = np.full((len(results), K), -np.inf, dtype=self.dtype)
        for b, row in enumerate(results):
            for i, (hypothesis, score) in enumerate(row[:K]):
                tokens[b, i, : len(hypothesis.tokens)] = hypothesis.tokens
                scores[b, i] = score
        return {"tokens": tokens, "scores": scores}

    def begin(self, prompt: Array) -> tuple[Array, State]:
        """Logits (B, V) after what is read first, and the state."""
        p = self.scope()
        return self.advance(self.start(prompt, p), self.architecture.opening(prompt, self.config), p)

    def start(self, prompt: Array, p: Scope) -> State:
        """The state before anything is read of the stream that is written."""
        started: State = self.cache.start(prompt, p)
        return started

    def advance(self, state: State, tokens: Array, p: Scope | None = None) -> tuple[Array, State]:
        """Logits (R, V) of what may follow these tokens (R, 1)."""
        logits, state = self.cache.step(state, tokens, self.scope() if p is None else p)
        return self.last_position(logits.value), state

    def last_position(self, logits: Array) -> Array:
        return logits[:, -1]

    def ends(self, token: int) -> bool:
        return token == self.config.eos_id

    def walk(self, prompt: Array, max_len: int, chosen: dict[str, Any]) -> list[Hypothesis]:
        """One hypothesis per row, each ending on its own: greedy, or drawn."""
        draws = [np.random.default_rng([chosen["seed"], row]) for row in range(len(prompt))]
        ended: dict[int, Hypothesis] = {}
        live = [Hypothesis(row) for row in range(len(prompt))]
        logits, state = self.begin(prompt)
        for _ in range(max_len):
            logs = log_normalised(logits)
            tokens = self.choose(logits, live, draws, chosen)
            live = [h.followed_by(t, float(logs[i, t])) for i, (h, t) in enumerate(zip(live, tokens))]
            ended |= {h.row: h for h in live}
            going = self.still_going(live)
            if not going:
                break
            live = [live[i] for i in going]
            if len(live[0].tokens) < max_len:
                logits, state = self.advance_chosen(state, going, live)
        return [ended[row] for row in range(len(prompt))]

    def still_going(self, live: list[Hypothesis]) -> list[int]:
        """The places of the hypotheses that have not ended."""
        return [i for i, h in enumerate(live) if not self.ends(h.tokens[-1])]

    def advance_chosen(self, state: State, rows: list[int], live: list[Hypothesis]) -> tuple[Array, State]:
        """Keep these rows of the state and append the last token of each hypothesis."""
        state = self.reorder(state, np.array(rows, dtype=np.int64))
        return self.advance(state, np.array([[h.tokens[-1]] for h in live], dtype=np.int64))

    def reorder(self, state: State, rows: Array) -> State:
        reordered: State = self.cache.reorder(state, rows)
        return reordered

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: list[np.random.Generator], chosen: dict[str, Any]
    ) -> list[int]:
        """The next token of each live row; of equal maxima the lowest id."""
        if chosen["method"] == "greedy":
            return [int(i) for i in logits.argmax(axis=-1)]
        p = self.parts.sampling.next_token_distribution(
            logits, chosen["temperature"], chosen["top_k"], chosen["top_p"]
        )
        return [int(draws[h.row].choice(p.shape[-1], p=p[i])) for i, h in enumerate(live)]

    def beam(
        self, prompt: Array, max_len: int, width: int, num_results: int, alpha: float
    ) -> list[list[tuple[Hypothesis, float]]]:
        """All rows of the batch advance together; a row that is done leaves."""
        finished: list[list[Hypothesis]] = [[] for _ in prompt]
        live = [Hypothesis(row) for row in range(len(prompt))]
        logits, state = self.begin(prompt)
        for length in range(1, max_len + 1):
            ended, live, parents = self.extend(live, log_normalised(logits), width)
            for hypothesis in ended:
                finished[hypothesis.row].append(hypothesis)
            keep = [i for i, h in enumerate(live) if not self.done(finished[h.row], live, width)]
            live, parents = [live[i] for i in keep], [parents[i] for i in keep]
            if not live or length == max_len:
                break
            logits, state = self.advance_chosen(state, parents, live)
        for hypothesis in self.open_at_the_end(live):
            finished[hypothesis.row].append(hypothesis)
        return [self.ranked(row, alpha)[:num_results] for row in finished]

    def extend(
        self, live: list[Hypothesis], logs: Array, width: int
    ) -> tuple[list[Hypothesis], list[Hypothesis], list[int]]:
        """One step of every batch row: what ended, what lives on, and the row each survivor came from."""
        ended: list[Hypothesis] = []
        open_: list[Hypothesis] = []
        parents: list[int] = []
        for row in sorted({h.row for h in live}):
            places = [i for i, h in enumerate(live) if h.row == row]
            survivors = 0
            for rank, (parent, token) in enumerate(self.best(live, logs, places, 2 * width)):
                grown = live[parent].followed_by(token, float(logs[parent, token]))
                if self.ends(token):
                    if self.counts(rank, width):
                        ended.append(grown)
                elif survivors < width:
                    open_.append(grown)
                    parents.append(parent)
                    survivors += 1
        return ended, open_, parents

    def counts(self, rank: int, width: int) -> bool:
        """A continuation that ends is finished only if it is among the first W."""
        return rank < width

    def best(
        self, live: list[Hypothesis], logs: Array, places: list[int], count: int
    ) -> list[tuple[int, int]]:
        """The `count` best continuations (live place, token) of one batch row by summed log-probability."""
        so_far = np.array([live[i].log_probability for i in places])
        total = (so_far[:, None] + logs[places]).ravel()
        V = logs.shape[-1]
        return [(places[int(i) // V], int(i) % V) for i in np.argsort(-total, kind="stable")[:count]]

    def done(self, finished: list[Hypothesis], live: list[Hypothesis], width: int) -> bool:
        """A batch row stops when as many have finished as the beam is wide."""
        return len(finished) >= width

    def open_at_the_end(self, live: list[Hypothesis]) -> list[Hypothesis]:
        """What still lives at max_len counts as finished."""
        return live

    def ranked(self, finished: list[Hypothesis], alpha: float) -> list[tuple[Hypothesis, float]]:
        scored = [(h, self.parts.ranking.score(h.log_probability, len(h.tokens), alpha)) for h in finished]
        return sorted(scored, key=lambda pair: -pair[1])
