"""Attention over the keys in blocks, with a running maximum: https://arxiv.org/abs/2205.14135, section 3.1.

Shapes: T queries, S keys, c keys of one block, d width; leading axes (batch, heads) broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


@dataclass(frozen=True)
class Running:
    """What is known of the blocks read so far; `top` keeps the exponentials small and leaves no trace."""

    top: Array  # (..., T, 1): the largest score, minus infinity before one is seen
    total: Var  # (..., T): the sum of exp(score - top)
    mixed: Var  # (..., T, d_v): the sum of exp(score - top) times the values


class Chunked(Part):
    """The softmax of attention without all scores at once."""

    def bounds(self, S: int) -> list[tuple[int, int]]:
        """Where the blocks of keys begin and end; the last may be short."""
        return [(first, min(first + self.config.chunk, S)) for first in range(0, S, self.config.chunk)]

    def scores(self, q: Var, k: Var) -> Var:
        """Scaled, (..., T, c)."""
        attention = self.parts.attention
        return attention.scale(attention.scores(q, k, Where()), q, k, Where())

    def allowed(self, allowed: Array | None, first: int, last: int) -> Array | None:
        """The part of a mask that speaks of these keys; a mask with one column speaks of all."""
        return allowed if allowed is None or allowed.shape[-1] == 1 else allowed[..., first:last]

    def start(self, q: Var, v: Var) -> Running:
        rows = q.shape[:-1]
        nothing = Var(np.zeros((*rows, v.shape[-1])))
        return Running(np.full((*rows, 1), -np.inf), Var(np.zeros(rows)), nothing)

    def higher(self, top: Array, scores: Array) -> Array:
        """The largest score so far."""
        higher: Array = np.maximum(top, scores.max(axis=-1, keepdims=True))
        return higher

    def shift(self, top: Array) -> Array:
        """What is subtracted from scores: the largest, or nothing before one is seen."""
        return np.where(top == -np.inf, 0.0, top)

    def rescaled_total(self, total: Var, factor: Array) -> Var:
        return ops.scale(total, factor[..., 0])

    def rescaled_mixed(self, mixed: Var, factor: Array) -> Var:
        return ops.scale(mixed, factor)

    def read(self, held: Running, scores: Var, v: Var, allowed: Array | None) -> Running:
        """One block of keys more."""
        seen = scores if allowed is None else ops.where(np.asarray(allowed, bool), scores, -np.inf)
        top = self.higher(held.top, seen.value)
        raised = ops.exp(ops.add(seen, -self.shift(top)))
        factor = np.exp(held.top - self.shift(top))
        total = ops.add(self.rescaled_total(held.total, factor), ops.sum_last(raised))
        mixed = ops.add(self.rescaled_mixed(held.mixed, factor), ops.mix(raised, v))
        return Running(top, total, mixed)

    def divided(self, held: Running) -> Var:
        """The output; zeros for a query that sees nothing."""
        total = held.total.value
        blind = total == 0
        inverse = 1.0 / np.where(blind, 1.0, total)
        share = ops.elementwise(held.total, np.where(blind, 0.0, inverse), -inverse * inverse)
        return ops.mul(held.mixed, ops.reshape(share, (*share.shape, 1)))

    def logarithm(self, held: Running) -> Var:
        """log(sum(exp(score))), (..., T)."""
        total = held.total.value
        value = np.where(total == 0, -np.inf, np.log(np.where(total == 0, 1.0, total)))
        slope = 1.0 / np.where(total == 0, np.inf, total)
        return ops.add(ops.elementwise(held.total, value, slope), self.shift(held.top)[..., 0])

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        S = k.shape[-2]
        allowed, held = self.parts.masks.allowed(where, q.shape[-2], S), self.start(q, v)
        for first, last in self.bounds(S):
            keys, values = (ops.index(x, (..., slice(first, last), slice(None))) for x in (k, v))
            held = self.read(held, self.scores(q, keys), values, self.allowed(allowed, first, last))
        return {"output": self.divided(held), "log_sum_exp": self.logarithm(held)}


class AllAtOnce(Chunked):
    """The oracle's: the formula of attention, and the logarithm of its denominator."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        allowed = self.parts.masks.allowed(where, q.shape[-2], k.shape[-2])
        scores = self.scores(q, k)
        output = ops.mix(ops.softmax(scores, allowed), v)
        return {"output": output, "log_sum_exp": ops.log_sum_exp(scores, allowed)}


@formula("chunked_attention")
def _chunked_attention(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return parts.chunked(inputs["q"], inputs["k"], inputs["v"], Where.of(inputs))
