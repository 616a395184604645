"""Which head follows which pattern, and what the model can still do without it.

A pattern names keys for each query: the position before it, the first one, a key with the same token. The
score of a head is the share of its weight on these keys, averaged over the queries for which the pattern
names a key at all and which see more than one; padding has no part in it.

Shapes: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attest.contract import Array, Config
from attest.contract.vocabulary import TOKENS
from attest.reference.models.maps import Maps, without_heads
from attest.trained.digits import IDS
from attest.trained.tasks import PAD

NAMED = 0.5  # a head follows a pattern when at least half of its weight does
POINTS_AT: Mapping[str, Callable[[Sequence[int]], list[int]]] = {
    "FIRST": lambda digits: [0],
    "SECOND": lambda digits: [1],
    "LAST": lambda digits: [len(digits) - 1],
    "MAX": lambda digits: [i for i, d in enumerate(digits) if d == max(digits)],
    "MIN": lambda digits: [i for i, d in enumerate(digits) if d == min(digits)],
}  # SUM and COUNT need every digit


@dataclass(frozen=True)
class Head:
    """One head: the pattern it follows most, how much, on how many inputs, and every other score."""

    kind: str
    layer: int
    number: int
    scores: Mapping[str, float]
    shares: Mapping[str, float]  # of the inputs on which at least half of the weight follows the pattern

    @property
    def best(self) -> str:
        """The pattern with the highest score."""
        return max(self.scores, key=lambda name: self.scores[name])

    @property
    def pattern(self) -> str:
        """Its name where the head follows it, otherwise none."""
        return self.best if self.scores[self.best] >= NAMED else "none"


def visible(kind: str, queries: Array, keys: Array) -> Array:
    """(B, T, S): pairs of real tokens; in the decoder's own attention no key after the query."""
    seen: Array = (queries != PAD)[:, :, None] & (keys != PAD)[:, None, :]
    return seen & np.tri(queries.shape[1], dtype=bool) if kind == "decoder" else seen


def patterns(kind: str, queries: Array, keys: Array) -> dict[str, Array]:
    """(B, T, S) for each pattern that makes sense for this kind of attention."""
    seen = visible(kind, queries, keys)
    T, S = queries.shape[1], keys.shape[1]
    lengths = (keys != PAD).sum(axis=1)
    found: dict[str, Array] = {}
    if kind != "cross":
        found["previous"] = np.eye(T, k=-1, dtype=bool)[None]
        found["itself"] = np.eye(T, dtype=bool)[None]
    found["first"] = (np.arange(S) == 0)[None, None]
    if kind != "decoder":  # there the last visible key is the query itself
        found["last"] = (np.arange(S) == lengths[:, None] - 1)[:, None]
    other = ~np.eye(T, S, dtype=bool) if kind != "cross" else np.ones((T, S), bool)
    found["same token"] = (queries[:, :, None] == keys[:, None, :]) & other
    found["delimiter"] = ((keys < IDS["0"]) | (keys > IDS["9"]))[:, None]
    if kind != "decoder":
        found["operation's digit"] = _pointed_at(kind, queries, keys)
    choice = seen & (seen.sum(axis=-1, keepdims=True) > 1)  # a query with one key has no choice
    return {name: np.broadcast_to(mask, seen.shape) & choice for name, mask in found.items()}


def _pointed_at(kind: str, queries: Array, keys: Array) -> Array:
    """The digit that answers, where the operation stands (encoder) or where the answer is written (cross)."""
    found = np.zeros((len(keys), queries.shape[1], keys.shape[1]), bool)
    for row, ids in enumerate(keys):
        name = TOKENS[ids[0]] if ids[0] < len(TOKENS) else ""
        digits = [int(i) - IDS["0"] for i in ids[1:] if i != PAD]
        if name in POINTS_AT and len(digits) > 1:
            found[row, 0, [1 + i for i in POINTS_AT[name](digits)]] = True
    return found


def heads(maps: Maps, source: Array, target: Array) -> list[Head]:
    """Every head of the model."""
    streams = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    found = []
    for kind, weights in maps.kinds.items():
        named = patterns(kind, *streams[kind])
        for layer, by_head in enumerate(weights):
            for number in range(by_head.shape[1]):
                measured = {name: _score(by_head[:, number], keys) for name, keys in named.items()}
                scores = {name: score for name, (score, _) in measured.items()}
                shares = {name: share for name, (_, share) in measured.items()}
                found.append(Head(kind, layer, number, scores, shares))
    return found


def _score(weights: Array, keys: Array) -> tuple[float, float]:
    """Of weights (B, T, S): the mean weight on the named keys, and the share of inputs where it is half."""
    asked = np.asarray(keys.any(axis=-1))  # (B, T): a query for which no key is named says nothing
    if not asked.any():
        return 0.0, 0.0
    on_keys = np.where(keys, weights, 0.0).sum(axis=-1)
    rows = np.any(asked, axis=1)
    per_row = np.where(asked, on_keys, 0.0).sum(axis=1)[rows] / asked.sum(axis=1)[rows]
    return float(on_keys[asked].mean()), float((per_row >= NAMED).mean())


def ablated(
    config: Config,
    parameters: Mapping[str, Array],
    found: Sequence[Head],
    accuracy: Callable[[Mapping[str, Array]], float],
) -> list[float]:
    """The accuracy without each head, one at a time."""
    return [
        accuracy(without_heads(config, parameters, frozenset({(head.kind, head.layer, head.number)})))
        for head in found
    ]
