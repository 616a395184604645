"""Beam search: W hypotheses per source, advanced together.

Each step takes the 2W best continuations by summed log-probability. One that ends in EOS is finished if it is
among the first W and dropped otherwise; the first W others live on. A source is done when W are finished;
what still lives at max_len counts as finished. score = log-probability / ((5 + n) / 6)^alpha for n tokens.

Shapes: B sources, W width, C = 2W candidates, L tokens, V vocabulary, K results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from attest.contract import Array, Config

from .loss import log_softmax


class Writer(Protocol):
    """A model that can be continued: one that reads its prompt apart, or one that continues it."""

    config: Config

    def aligned(self, prompt: Array) -> Array:
        """The prompt with its padding where this model wants it."""

    def begin(self, prompt: Array, max_len: int) -> tuple[Any, Array]:
        """The state before the first step, and the ids (B, n) of that step."""

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        """Logits (B, n, V), and the state that has read the tokens (B, n)."""

    def reorder(self, state: Any, rows: Array) -> Any:
        """The state whose row i is the old row rows[i]."""


NEVER = -np.inf  # the score of a place that holds no hypothesis


@dataclass(frozen=True)
class Hypotheses:
    """A number of places for each source."""

    tokens: Array  # (B, places, L), padded
    scores: Array  # (B, places), NEVER where there is none

    def picked(self, places: Array) -> Hypotheses:
        """Those at places (B, n), in that order."""
        tokens = np.take_along_axis(self.tokens, places[..., None], axis=1)
        return Hypotheses(tokens, np.take_along_axis(self.scores, places, axis=1))

    def joined(self, other: Hypotheses) -> Hypotheses:
        tokens = np.concatenate([self.tokens, other.tokens], axis=1)
        return Hypotheses(tokens, np.concatenate([self.scores, other.scores], axis=1))

    def only(self, chosen: Array, divisor: float = 1.0) -> Hypotheses:
        """The chosen ones, their scores divided; the other places hold none."""
        return Hypotheses(self.tokens, np.where(chosen, self.scores / divisor, NEVER))


def best_places(scores: Array, count: int) -> Array:
    """(B, count): where the best scores stand, best first, the first of equals first."""
    return np.argsort(-scores, axis=-1, kind="stable")[:, :count]


def length_penalty(n: int, alpha: float) -> float:
    return float(((5 + n) / 6) ** alpha)


def continuations(logits: Array, live: Hypotheses, n: int) -> tuple[Array, Hypotheses]:
    """The C best hypotheses of n tokens, best first, and the live places (B, C) they continue."""
    B, W = live.scores.shape
    log_p = log_softmax(logits.astype(np.float64))  # (B W, V)
    V = log_p.shape[-1]
    totals = (live.scores[..., None] + log_p.reshape(B, W, V)).reshape(B, W * V)
    index = best_places(totals, 2 * W)  # (B, C); V is at least 3, so there are as many
    parents, token = np.divmod(index, V)
    found = live.picked(parents)
    found.tokens[:, :, n - 1] = token
    return parents, Hypotheses(found.tokens, np.take_along_axis(totals, index, axis=-1))


def beam_search(
    model: Writer, prompt: Array, max_len: int, width: int, num_results: int, alpha: float
) -> tuple[Array, Array]:
    """tokens (B, K, L), scores (B, K), best first; a result that does not exist is padding scored -inf."""
    config, B = model.config, len(prompt)
    state, token = model.begin(prompt, max_len)
    state = model.reorder(state, np.repeat(np.arange(B), width))
    token = np.repeat(token, width, axis=0)  # (B W, n)
    empty = np.full((B, width, max_len), config.pad_id)
    finished = Hypotheses(empty, np.full((B, width), NEVER))
    live = Hypotheses(empty, np.where(np.arange(width) == 0, 0.0, finished.scores))  # one empty hypothesis
    count = np.zeros((B, 1), int)
    for n in range(1, max_len + 1):
        logits, state = model.step(state, token)
        parents, found = continuations(logits[:, -1], live, n)
        ends = found.tokens[:, :, n - 1] == config.eos_id  # (B, C)
        among_first = np.arange(ends.shape[1]) < width  # one that ends further down is dropped
        ending = ends & among_first & (count < width) & (found.scores > NEVER)
        finished = finished.joined(found.only(ending, length_penalty(n, alpha)))
        finished = finished.picked(best_places(finished.scores, width))
        count = count + ending.sum(axis=1, keepdims=True)
        survivors = best_places(np.where(ends, NEVER, found.scores), width)  # (B, W)
        live = found.only(~ends).picked(survivors)
        if ((count >= width) | (live.scores == NEVER).all(axis=1, keepdims=True)).all():
            break
        token = live.tokens[:, :, n - 1].reshape(-1, 1)
        rows = np.arange(B)[:, None] * width + np.take_along_axis(parents, survivors, axis=1)
        state = model.reorder(state, rows.reshape(-1))
    results = finished.joined(live.only(count < width, length_penalty(n, alpha)))
    return without_spare_columns(results.picked(best_places(results.scores, num_results)), config.pad_id)


def without_spare_columns(results: Hypotheses, pad_id: int) -> tuple[Array, Array]:
    """Tokens up to the end of the longest result, and the scores."""
    exists = results.scores[..., None] > NEVER
    tokens = np.where(exists, results.tokens, pad_id)  # (B, K, L)
    written = np.flatnonzero((tokens != pad_id).any(axis=(0, 1)))
    length = int(written[-1]) + 1 if len(written) else 1
    return tokens[..., :length], results.scores
