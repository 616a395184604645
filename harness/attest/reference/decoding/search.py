"""What generation must find, by full passes without a cache: greedy, exhaustive search, scores.

Shapes: B batch, P length of a prompt, L tokens written, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture, Arrays, Config
from attest.reference.assembly import oracle_parts
from attest.reference.decoding.sampling import log_normalised
from attest.reference.operations import run
from attest.reference.scope import Scope
from attest.reference.tape import Array, leaf


@dataclass(frozen=True)
class Result:
    """Tokens without the opening and padding, their summed log-probability, and their score."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float


@dataclass(frozen=True)
class BeamResult:
    """All that finished, best first, and the smallest distance between neighbours that a cut could part."""

    results: tuple[Result, ...]
    gap: float


class Searcher:
    """One model, searched the slow way."""

    def __init__(
        self, config: Config, parameters: Arrays, architecture: Architecture = ENCODER_DECODER
    ) -> None:
        self.config, self.parts, self.architecture = config, oracle_parts(config), architecture
        self.scope = Scope({name: leaf(value) for name, value in parameters.items()})

    def log_probabilities(self, prompt: Array, tokens: Array) -> Array:
        """(B, L + 1, V): what may follow the opening, the opening and the first token, and so on."""
        inputs, first = self.architecture.continued(prompt, tokens, self.config)
        with np.errstate(all="ignore"):
            outputs = run(self.parts, self.architecture.operation, self.scope, inputs)
            return log_normalised(outputs["logits"].value[:, first:])

    def log_probability(self, prompt: Array, tokens: tuple[int, ...]) -> float:
        """Teacher-forced: summed over the tokens, for one prompt (1, P)."""
        row = np.array([tokens], dtype=np.int64)
        logs = self.log_probabilities(prompt, row[:, :-1])
        return float(np.take_along_axis(logs, row[..., None], axis=-1).sum())

    def score(self, log_probability: float, length: int, alpha: float) -> float:
        return float(log_probability / ((5.0 + length) / 6.0) ** alpha)

    def greedy(self, prompt: Array, max_len: int) -> list[tuple[int, ...]]:
        """The likeliest token at each place, up to and including EOS."""
        tokens = np.zeros((len(prompt), 0), dtype=np.int64)
        for _ in range(max_len):
            best = self.log_probabilities(prompt, tokens)[:, -1].argmax(axis=-1)
            tokens = np.concatenate([tokens, best[:, None]], axis=1)
            if (tokens == self.config.eos_id).any(axis=1).all():
                break
        return [self.cut(row) for row in tokens]

    def cut(self, tokens: Array) -> tuple[int, ...]:
        """Up to and including the first EOS."""
        row = [int(token) for token in tokens]
        return tuple(row[: row.index(self.config.eos_id) + 1] if self.config.eos_id in row else row)

    def exhaustive(self, prompt: Array, max_len: int, alpha: float) -> list[Result]:
        """Every ending of one prompt (1, P), best first: V^max_len of them, so keep both small."""
        found: list[Result] = []
        prefixes, totals = np.zeros((1, 0), dtype=np.int64), np.zeros(1)
        for length in range(1, max_len + 1):
            logs = self.log_probabilities(np.repeat(prompt, len(prefixes), axis=0), prefixes)[:, -1]
            V = logs.shape[-1]
            prefixes = np.concatenate(
                [np.repeat(prefixes, V, axis=0), np.tile(np.arange(V), len(prefixes))[:, None]], axis=1
            )
            totals = (totals[:, None] + logs).ravel()
            over = (prefixes[:, -1] == self.config.eos_id) | (length == max_len)
            for tokens, total in zip(prefixes[over], totals[over]):
                ended = tuple(int(token) for token in tokens)
                found.append(Result(ended, float(total), self.score(float(total), length, alpha)))
            prefixes, totals = prefixes[~over], totals[~over]
        return sorted(found, key=lambda result: -result.score)

    def beam(self, prompt: Array, max_len: int, width: int, alpha: float) -> BeamResult:
        """Beam search over one prompt (1, P), every prefix read anew at every step."""
        live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
        finished: list[Result] = []
        gap = float("inf")
        for length in range(1, max_len + 1):
            ranked = self.continuations(prompt, live)
            totals = [total for _, total in ranked[: 2 * width + 1]]
            gap = min([gap, *(a - b for a, b in pairwise(totals))])
            ended = [c for c in ranked[:width] if c[0][-1] == self.config.eos_id]
            finished += [Result(t, p, self.score(p, length, alpha)) for t, p in ended]
            live = [c for c in ranked[: 2 * width] if c[0][-1] != self.config.eos_id][:width]
            if len(finished) >= width:
                break
        else:
            finished += [Result(t, p, self.score(p, max_len, alpha)) for t, p in live]
        return BeamResult(tuple(sorted(finished, key=lambda result: -result.score)), gap)

    def continuations(
        self, prompt: Array, live: list[tuple[tuple[int, ...], float]]
    ) -> list[tuple[tuple[int, ...], float]]:
        """Every live hypothesis with one more token, by summed log-probability."""
        prefixes = np.array([tokens for tokens, _ in live], dtype=np.int64)
        logs = self.log_probabilities(np.repeat(prompt, len(live), axis=0), prefixes)[:, -1]
        grown = [
            ((*tokens, token), total + float(logs[row, token]))
            for row, (tokens, total) in enumerate(live)
            for token in range(logs.shape[-1])
        ]
        return sorted(grown, key=lambda pair: -pair[1])
