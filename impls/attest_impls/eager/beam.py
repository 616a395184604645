"""Beam search: W hypotheses per source, advanced together.

Each step takes the 2W best continuations by summed log-probability. One that ends in EOS is finished if it is
among the first W and dropped otherwise; the first W others live on. A source is done when W are finished;
what still lives at max_len counts as finished. score = log-probability / ((5 + n) / 6)^alpha for n tokens.

Shapes: B batch, W width, C = 2W candidates, L tokens, V vocabulary.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .cache import StepwiseDecoder
from .language_model import LanguageModel
from .model import Transformer

NEVER = -math.inf  # the log-probability of a place that holds no hypothesis


@dataclass
class Hypotheses:
    """A fixed number of places per source."""

    tokens: Tensor  # (B, places, L), padded
    scores: Tensor  # (B, places), NEVER where there is none

    def pick(self, places: Tensor) -> "Hypotheses":
        index = places.unsqueeze(-1).expand(-1, -1, self.tokens.shape[-1])
        return Hypotheses(self.tokens.gather(1, index), self.scores.gather(1, places))

    def best(self, count: int) -> "Hypotheses":
        return self.pick(self.scores.topk(count).indices)

    def joined(self, other: "Hypotheses") -> "Hypotheses":
        tokens = torch.cat([self.tokens, other.tokens], 1)
        return Hypotheses(tokens, torch.cat([self.scores, other.scores], 1))

    def where(self, chosen: Tensor, factor: float = 1.0) -> "Hypotheses":
        """The chosen ones, their scores multiplied; the other places hold none."""
        return Hypotheses(self.tokens, torch.where(chosen, self.scores * factor, NEVER))


@dataclass
class Beam:
    """The search for all sources, between two steps."""

    live: Hypotheses  # W places per source
    finished: Hypotheses  # the W best that have ended
    count: Tensor  # (B, 1): how many have ended

    @property
    def width(self) -> int:
        return self.live.scores.shape[1]

    @property
    def over(self) -> bool:
        done = (self.count >= self.width) | (self.live.scores == NEVER).all(1, keepdim=True)
        return bool(done.all())

    def advance(self, logits: Tensor, n: int, eos_id: int, penalty: float) -> Tensor:
        """Take token number n of every hypothesis. Returns the places (B, W) that the live ones come from."""
        parent, candidates = _continuations(logits, self.live, n)
        ends = candidates.tokens[:, :, n - 1] == eos_id  # (B, C)
        first = torch.arange(ends.shape[1], device=ends.device) < self.width
        ending = ends & first & (self.count < self.width) & (candidates.scores > NEVER)
        self.finished = self.finished.joined(candidates.where(ending, 1 / penalty)).best(self.width)
        self.count = self.count + ending.sum(1, keepdim=True)
        survivors = candidates.where(~ends).scores.topk(self.width).indices  # (B, W)
        self.live = candidates.where(~ends).pick(survivors)
        return parent.gather(1, survivors)

    def results(self, count: int, penalty: float) -> Hypotheses:
        """The best of what has ended and, where fewer than W have, of what still lives."""
        still_open = (self.count < self.width).expand(-1, self.width)
        return self.finished.joined(self.live.where(still_open, 1 / penalty)).best(count)


def beam_search(
    model: Transformer | LanguageModel,
    source: Tensor,
    max_len: int,
    width: int,
    num_results: int,
    alpha: float,
    decoder: StepwiseDecoder,
) -> tuple[Tensor, Tensor]:
    """tokens (B, K, L), scores (B, K), best first; a result that does not exist is padding scored -inf."""
    config, B = model.config, source.shape[0]
    row = torch.arange(B, device=source.device).unsqueeze(1)  # (B, 1)
    beam = _empty_beam(source, max_len, width, config.pad_id)
    state = decoder.start(model, source, max_len)
    state = decoder.reorder(state, row.expand(B, width).flatten())
    token = model.opening(source).repeat_interleave(width, 0)
    for n in range(1, max_len + 1):
        logits, state = decoder.step(model, state, token)
        parent = beam.advance(logits[:, -1], n, config.eos_id, _penalty(n, alpha))
        if n == max_len or (n % decoder.look_every == 0 and beam.over):
            break  # steps after the last hypothesis has ended change nothing
        token = beam.live.tokens[:, :, n - 1].reshape(-1, 1)
        state = decoder.reorder(state, (row * width + parent).flatten())
    results = beam.results(num_results, _penalty(n, alpha))
    tokens = torch.where(results.scores.unsqueeze(-1) > NEVER, results.tokens, config.pad_id)
    return tokens[:, :, : _longest(tokens, config.pad_id)], results.scores


def _empty_beam(source: Tensor, max_len: int, width: int, pad_id: int) -> Beam:
    """One empty hypothesis per source; the other places hold none."""
    B, device = source.shape[0], source.device
    tokens = source.new_full((B, width, max_len), pad_id)
    scores = torch.full((B, width), NEVER, dtype=torch.float64, device=device)
    live = Hypotheses(tokens, scores.clone())
    live.scores[:, 0] = 0.0
    return Beam(live, Hypotheses(tokens, scores), torch.zeros(B, 1, dtype=torch.int64, device=device))


def _continuations(logits: Tensor, live: Hypotheses, n: int) -> tuple[Tensor, Hypotheses]:
    """The C best one-token continuations of each source, best first, and the places they come from."""
    B, W = live.scores.shape
    V = logits.shape[-1]
    totals = live.scores.unsqueeze(-1) + logits.double().log_softmax(-1).view(B, W, V)
    scores, index = totals.flatten(1).topk(min(2 * W, W * V))
    parent = index // V
    candidates = Hypotheses(live.pick(parent).tokens, scores)
    candidates.tokens[:, :, n - 1] = index % V
    return parent, candidates


def _penalty(n: int, alpha: float) -> float:
    return ((5 + n) / 6) ** alpha


def _longest(tokens: Tensor, pad_id: int) -> int:
    """How many tokens the longest result has; one at least."""
    written = (tokens != pad_id).flatten(0, 1).any(0)  # (L,)
    lengths = torch.arange(1, len(written) + 1, device=tokens.device)
    return max(1, int(torch.where(written, lengths, 0).max()))
