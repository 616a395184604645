"""Assertions on what was generated: its form, its choices, its scores. Near ties within the bound are open.

Shapes: tokens (B, K, L) without BOS, with EOS, then pad; scores (B, K).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from attest.checks.arrays import expect, expect_finite, expect_shape
from attest.contract import Array, Config
from attest.evidence import current
from attest.outcomes import Deviation, Violation
from attest.reference.decoding.search import Result
from attest.reference.decoding.teacher import Reading, Tokens

Found = tuple[Tokens, float]  # a hypothesis and its score


class Written(Protocol):
    """A case or workload whose model has written something."""

    @property
    def config(self) -> Config: ...

    @property
    def num_classes(self) -> int: ...


def results_of(seen: Mapping[str, Array], model: Written, B: int, K: int, limit: int) -> list[list[Found]]:
    """Per row of the batch the K hypotheses with their scores, once their form has been checked."""
    for name in ("tokens", "scores"):
        expect(name in seen, f"generate returned {sorted(seen)}, should return {name}")
    tokens, scores = seen["tokens"], seen["scores"]
    expect(tokens.dtype.kind in "iu", f"tokens have dtype {tokens.dtype}, should be integers")
    expect(tokens.ndim == 3, f"tokens have rank {tokens.ndim}, should be (B, K, L)")
    expect_shape(tokens, (B, K, tokens.shape[-1]), "tokens")
    expect(tokens.shape[-1] <= limit, f"{tokens.shape[-1]} tokens were returned, max_len is {limit}")
    expect_shape(scores, (B, K), "scores")
    expect_finite(scores, "scores")
    return [
        [
            (hypothesis_of(tokens[b, k], model, limit, f"tokens[{b}, {k}]"), float(scores[b, k]))
            for k in range(K)
        ]
        for b in range(B)
    ]


def hypothesis_of(row: Array, model: Written, limit: int, what: str) -> Tokens:
    """The tokens up to EOS; after it there is padding only, and without it there are `limit` of them."""
    config, V = model.config, model.num_classes
    tokens = [int(token) for token in row]
    shown = " ".join(map(str, tokens))
    outside = [token for token in tokens if not 0 <= token < V]
    expect(not outside, f"{what} is {shown}, with ids outside the vocabulary of {V}")
    if config.eos_id in tokens:
        length = tokens.index(config.eos_id) + 1
        padded = set(tokens[length:]) <= {config.pad_id}
        expect(padded, f"{what} is {shown}, which goes on after EOS={config.eos_id}; pad={config.pad_id}")
    else:
        length = limit
        whole = len(tokens) == limit and config.pad_id not in tokens
        expect(whole, f"{what} is {shown}, which ends without EOS={config.eos_id} before max_len={limit}")
    return tuple(tokens[:length])


def expect_greedy(reading: Reading, what: str) -> None:
    """Every token has the largest logit, up to two errors of the size of the bound."""
    for i, token in enumerate(reading.tokens):
        best = int(np.argmax(reading.logits[i]))
        short = float(reading.logits[i, best] - reading.logits[i, token])
        current().saw(short / float(2 * reading.bounds[i]))
        expect(
            short <= 2 * reading.bounds[i],
            f"{what} has token {token} at place {i}, whose logit is {short:.3g} below that of {best}",
        )


def expect_same_choices(seen: Tokens, wanted: Tokens, reading: Reading, what: str) -> None:
    """Equal up to the first place where both logits are so close that either token is right."""
    for i, (one, other) in enumerate(zip(seen, wanted)):
        if one != other:
            apart = abs(float(reading.logits[i, one] - reading.logits[i, other]))
            expect(apart <= 4 * reading.bounds[i], f"{what} is {seen}, should be {wanted}")
            return
    expect(len(seen) == len(wanted), f"{what} is {seen}, should be {wanted}")


def expect_score(seen: float, wanted: float, error: float, what: str) -> None:
    """Within the error."""
    ratio = abs(seen - wanted) / error
    current().saw(ratio)
    if not ratio <= 1.0:
        raise Violation(deviation=Deviation(what, (), seen, wanted, ratio, "the bound"))


def penalty(length: int, alpha: float) -> float:
    """((5 + n) / 6)^alpha."""
    return float(((5.0 + length) / 6.0) ** alpha)


def expect_scores(
    found: Sequence[Found], readings: Sequence[Reading], alpha: float, *, factor: float = 1.0
) -> None:
    """Each score is the log-probability of its tokens over the length penalty."""
    for (tokens, score), reading in zip(found, readings, strict=True):
        share = penalty(len(tokens), alpha)
        shown = " ".join(map(str, tokens))
        expect_score(
            score, reading.log_probability / share, factor * reading.error / share, f"the score of {shown}"
        )


def expect_ordered(found: Sequence[Found]) -> None:
    """Best first, none twice."""
    scores = [score for _, score in found]
    expect(scores == sorted(scores, reverse=True), f"scores {scores} are not in falling order")
    hypotheses = [tokens for tokens, _ in found]
    twice = next((t for i, t in enumerate(hypotheses) if t in hypotheses[:i]), None)
    expect(twice is None, f"the hypothesis {twice} was returned twice")


def expect_best(found: Sequence[Found], wanted: Sequence[Result], tolerance: float) -> None:
    """The first of all there are, rank by rank; scores closer than the tolerance may change places."""
    by_tokens = {result.tokens: result for result in wanted}
    for rank, (tokens, score) in enumerate(found):
        best = wanted[rank]
        expect(
            tokens in by_tokens and abs(by_tokens[tokens].score - best.score) <= tolerance,
            f"rank {rank} holds {tokens} with score {score:.6g}, should hold {best.tokens} "
            f"with {best.score:.6g}",
        )
        expect_score(score, by_tokens[tokens].score, tolerance, f"the score at rank {rank}")


def tolerance_of(readings: Sequence[Reading], alpha: float, limit: int) -> float:
    """How far two correct scores of such hypotheses may be apart."""
    share = min(penalty(1, alpha), penalty(limit, alpha))
    return 2 * max(reading.error for reading in readings) / share
