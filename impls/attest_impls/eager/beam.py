"""Beam search: W hypotheses per source, advanced together.

Each step takes the 2W best continuations by summed log-probability. One that ends in EOS is finished if it is
among the first W and dropped otherwise; the first W others live on. A source is done when W are finished;
what still lives at max_len counts as finished. score = log-probability / ((5 + n) / 6)^alpha for n tokens.

Shapes: B batch, W width, C = 2W candidates, L tokens, V vocabulary.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import cache
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


def beam_search(
    model: Transformer,
    source: Tensor,
    max_len: int,
    width: int,
    num_results: int,
    alpha: float,
    decoder: Any = cache,
) -> tuple[Tensor, Tensor]:
    """tokens (B, K, L), scores (B, K), best first; a result that does not exist is padding scored -inf.

    `decoder` has start, advance and reorder, as the module `cache` does.
    """
    config, (B, device) = model.config, (source.shape[0], source.device)
    row = torch.arange(B, device=device).unsqueeze(1)  # (B, 1)
    empty = Hypotheses(
        source.new_full((B, width, max_len), config.pad_id),
        torch.full((B, width), NEVER, dtype=torch.float64, device=device),
    )
    finished, live = empty, Hypotheses(empty.tokens, empty.scores.clone())
    live.scores[:, 0] = 0.0  # one empty hypothesis per source
    count = torch.zeros(B, 1, dtype=torch.int64, device=device)
    state = decoder.start(model, source, max_len)
    state = decoder.reorder(state, row.expand(B, width).flatten())
    token = source.new_full((B * width, 1), config.bos_id)
    for n in range(1, max_len + 1):
        logits, state = decoder.advance(model, state, token)
        parent, candidates = _continuations(logits[:, -1], live, n)
        ends = candidates.tokens[:, :, n - 1] == config.eos_id
        first = torch.arange(ends.shape[1], device=device) < width
        ending = ends & first & (count < width) & (candidates.scores > NEVER)
        finished = finished.joined(candidates.where(ending, 1 / _penalty(n, alpha))).best(width)
        count += ending.sum(1, keepdim=True)
        survivors = candidates.where(~ends).scores.topk(width).indices
        live = candidates.where(~ends).pick(survivors)
        over = (count >= width) | (live.scores == NEVER).all(1, keepdim=True)
        if bool(over.all()):
            break
        if n < max_len:
            token = live.tokens[:, :, n - 1].reshape(-1, 1)
            rows = (row * width + parent.gather(1, survivors)).flatten()
            state = decoder.reorder(state, rows, same_source=True)
    still_open = (count < width).expand(B, width)
    results = finished.joined(live.where(still_open, 1 / _penalty(n, alpha))).best(num_results)
    tokens = torch.where(results.scores.unsqueeze(-1) > NEVER, results.tokens, config.pad_id)
    return tokens[:, :, : _longest(tokens, config.pad_id)], results.scores


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
    written = (tokens != pad_id).flatten(0, 1).any(0).nonzero()
    return int(written.max()) + 1 if len(written) else 1
