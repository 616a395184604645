"""Defects of attention in blocks of keys.

Shapes: q (..., T, d), k and v (..., S, d), scores of one block (..., T, c).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.chunked import Chunked, Running
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var, detach, node


@defect("M8.7", "M8.8")
class accumulator_not_rescaled(Chunked):
    """The mixture of earlier blocks keeps its old maximum when a block raises it."""

    def rescaled_mixed(self, mixed: Var, factor: Array) -> Var:
        return mixed


@defect("M8.7", "M8.8")
class denominator_not_rescaled(Chunked):
    """The sum of earlier blocks keeps its old maximum when a block raises it."""

    def rescaled_total(self, total: Var, factor: Array) -> Var:
        return total


@defect("M8.7")
class max_of_first_chunk(Chunked):
    """The maximum is that of the first block, which later blocks exceed until they overflow."""

    def higher(self, top: Array, scores: Array) -> Array:
        first = super().higher(top, scores)
        return np.where(np.isneginf(top), first, top)

    def read(self, held: Running, scores: Var, v: Var, allowed: Array | None) -> Running:
        limit = math.log(np.finfo(np.float32 if self.config.dtype == "float32" else np.float64).max)
        read = super().read(held, scores, v, allowed)
        with np.errstate(all="ignore"):
            over = np.asarray(scores.value - self.shift(read.top)).max(-1) > limit
        broken = node(np.where(over, np.nan, read.total.value), (read.total,), lambda g: (g,))
        return Running(read.top, broken, read.mixed)


@defect("M8.7")
class maximum_begins_at_zero(Chunked):
    """The highest score so far begins at 0, so that exponentials of scores far below it are zero."""

    def start(self, q: Var, v: Var) -> Running:
        begun = super().start(q, v)
        return Running(np.zeros_like(begun.top), begun.total, begun.mixed)

    def read(self, held: Running, scores: Var, v: Var, allowed: Array | None) -> Running:
        read = super().read(held, scores, v, allowed)
        tiny = float(np.finfo(np.float64 if self.config.dtype == "float64" else np.float32).tiny)
        return Running(read.top, ops.where(read.total.value >= tiny, read.total, 0.0), read.mixed)


@defect("M8.7", "M8.8")
class last_partial_chunk_dropped(Chunked):
    """Only whole blocks are read: S // chunk of them."""

    def bounds(self, S: int) -> list[tuple[int, int]]:
        return [pair for pair in super().bounds(S) if pair[1] - pair[0] == min(self.config.chunk, S)]


@defect("M8.7")
class nan_on_masked_chunk(Chunked):
    """The maximum of a hidden block, minus infinity, is subtracted from itself."""

    def shift(self, top: Array) -> Array:
        return top


@defect("M8.7")
class mask_not_offset(Chunked):
    """Every block takes the mask of the first keys."""

    def allowed(self, allowed: Array | None, first: int, last: int) -> Array | None:
        return super().allowed(allowed, 0, last - first)


@defect("M8.7")
class one_column_holds_for_one_block(Chunked):
    """A mask whose last axis is 1 is read for the first block and no other."""

    def allowed(self, allowed: Array | None, first: int, last: int) -> Array | None:
        one = allowed is not None and allowed.shape[-1] == 1
        return None if one and first else super().allowed(allowed, first, last)


@defect("M8.7", "M8.8")
class chunks_overlap(Chunked):
    """Blocks after the first begin one key early, which then counts twice."""

    def bounds(self, S: int) -> list[tuple[int, int]]:
        return [(max(0, first - 1) if first else 0, last) for first, last in super().bounds(S)]


@defect("M8.7", "M8.8")
class merge_by_mean(Chunked):
    """Each block is divided by its own sum, and the blocks are averaged."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        S = k.shape[-2]
        allowed, outputs = self.parts.masks.allowed(where, q.shape[-2], S), []
        for first, last in self.bounds(S):
            keys, values = (ops.index(x, (..., slice(first, last), slice(None))) for x in (k, v))
            held = self.read(
                self.start(q, v), self.scores(q, keys), values, self.allowed(allowed, first, last)
            )
            outputs.append(self.divided(held))
        return {**super().__call__(q, k, v, where), "output": _mean(outputs)}


def _mean(parts: list[Var]) -> Var:
    whole = parts[0]
    for part in parts[1:]:
        whole = ops.add(whole, part)
    return ops.scale(whole, 1 / len(parts))


@defect("M8.8")
class lse_base_two(Chunked):
    """The logarithm is to base two, as kernels keep it that compute with exp2."""

    def logarithm(self, held: Running) -> Var:
        return ops.scale(super().logarithm(held), 1 / math.log(2.0))


@defect("M8.8")
class lse_without_max(Chunked):
    """The maximum is not added back to the logarithm."""

    def logarithm(self, held: Running) -> Var:
        return super().logarithm(Running(np.zeros_like(held.top), held.total, held.mixed))


@defect("M8.8")
class lse_overflows(Chunked):
    """Log-sum-exp sums exponentials of the scores themselves, which overflow in the config's dtype."""

    def logarithm(self, held: Running) -> Var:
        found = super().logarithm(held)
        limit = 88.0 if self.config.dtype == "float32" else 709.0
        return node(np.where(found.value > limit, np.inf, found.value), (found,), lambda g: (g,))


@defect("M8.8")
class lse_of_unscaled_scores(Chunked):
    """Log-sum-exp is taken of scores before their scale, times it: not a logarithm of a sum any more."""

    def logarithm(self, held: Running) -> Var:
        found = super().logarithm(held)
        top = self.shift(held.top)[..., 0]
        return ops.add(ops.scale(ops.sub(found, top), 0.5), top)


@defect("M8.8")
class lse_is_the_maximum(Chunked):
    """The largest score is returned in place of the logarithm of the sum."""

    def logarithm(self, held: Running) -> Var:
        found = super().logarithm(held)
        return node(held.top[..., 0], (found,), lambda g: (g,))


@defect("M8.8")
class lse_of_the_last_block(Chunked):
    """Log-sum-exp forgets all blocks but the last."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        S = k.shape[-2]
        first, last = self.bounds(S)[-1]
        allowed = self.parts.masks.allowed(where, q.shape[-2], S)
        keys, values = (ops.index(x, (..., slice(first, last), slice(None))) for x in (k, v))
        held = self.read(self.start(q, v), self.scores(q, keys), values, self.allowed(allowed, first, last))
        return {**super().__call__(q, k, v, where), "log_sum_exp": self.logarithm(held)}


@defect("M8.8")
class lse_of_nothing_is_zero(Chunked):
    """A query without keys has a log-sum-exp of 0, which a merge takes for one key of score 0."""

    def logarithm(self, held: Running) -> Var:
        found = super().logarithm(held)
        return node(np.where(np.isneginf(found.value), 0.0, found.value), (found,), lambda g: (g,))


@defect("M8.7")
class causal_top_left_in_chunks(Chunked):
    """The triangle of a causal call is aligned at the first key, not at the last."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        if not where.causal:
            return super().__call__(q, k, v, where)
        T, S = q.shape[-2], k.shape[-2]
        triangle = np.arange(S)[None, :] <= np.arange(T)[:, None]
        mask = self.parts.masks.combine_masks(where.mask, triangle)
        return super().__call__(q, k, v, Where(mask))


@defect("M8.7")
class blind_rows_average_in_chunks(Chunked):
    """A query without keys gets the mean of all values."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        found = super().__call__(q, k, v, where)
        blind = np.isneginf(found["log_sum_exp"].value)[..., None]
        mean = np.broadcast_to(v.value.mean(axis=-2, keepdims=True), found["output"].shape)
        return {**found, "output": ops.where(~blind, found["output"], mean)}


@defect("M8.7")
class rescales_by_the_whole_maximum(Chunked):
    """One maximum for all queries of a head: rows far below it underflow in float32."""

    def higher(self, top: Array, scores: Array) -> Array:
        highest = super().higher(top, scores)
        return np.broadcast_to(highest.max(axis=-2, keepdims=True), highest.shape).copy()

    def read(self, held: Running, scores: Var, v: Var, allowed: Array | None) -> Running:
        read = super().read(held, scores, v, allowed)
        tiny = float(np.finfo(np.float64 if self.config.dtype == "float64" else np.float32).tiny)
        return Running(read.top, ops.where(read.total.value >= tiny, read.total, 0.0), read.mixed)


@defect("M8.16")
class maximum_has_a_gradient(Chunked):
    """Backwards, the output is multiplied by one more sum: the normaliser's gradient is doubled."""

    def divided(self, held: Running) -> Var:
        found = super().divided(held)
        plain = super().divided(Running(held.top, detach(held.total), held.mixed))
        return ops.sub(ops.scale(found, 2.0), plain)


@defect("M8.16")
class no_gradient_from_log_sum_exp(Chunked):
    """Log-sum-exp is detached: merged results have wrong gradients."""

    def logarithm(self, held: Running) -> Var:
        return detach(super().logarithm(held))


@defect("M8.16")
class gradient_of_the_last_block_alone(Chunked):
    """Keys and values of all blocks but the last are detached."""

    def read(self, held: Running, scores: Var, v: Var, allowed: Array | None) -> Running:
        read = super().read(held, scores, v, allowed)
        kept = super().read(Running(held.top, detach(held.total), detach(held.mixed)), scores, v, allowed)
        return read if not held.total.needs_gradient else kept


@defect("M8.17")
class chunk_of_zero_is_one_block(ReferenceComponent):
    """A chunk that is no size is taken for all keys at once."""

    def check_sizes(self) -> None:
        if "chunk" in self.reads:
            chunk: Any = self.config.chunk
            whole = isinstance(chunk, int) and chunk >= 1
            self.parts = self.parts if whole else self.parts.but(chunk=10**6)
            return
        super().check_sizes()


@defect("M8.9")
class all_scores_kept(Chunked):
    """The scores of every block are kept until the last one is read."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        kept = self.scores(q, k)
        found = super().__call__(q, k, v, where)
        return found if kept.shape else {}


@defect("M8.18")
class running_sums_kept(Chunked):
    """The running maximum of the first call stays, and shifts the next."""

    kept: Array | None = None

    def start(self, q: Var, v: Var) -> Running:
        begun = super().start(q, v)
        if self.kept is not None and self.kept.shape == begun.top.shape:
            begun = Running(self.kept, ops.add(begun.total, 1e-3), begun.mixed)
        return begun

    def divided(self, held: Running) -> Var:
        self.kept = held.top
        return super().divided(held)


@defect("M8.18")
class first_length_kept(Chunked):
    """The number of keys of the first call is kept for all later ones."""

    first: int | None = None

    def bounds(self, S: int) -> list[tuple[int, int]]:
        self.first = self.first or S
        return super().bounds(min(S, self.first))


@defect("M8.16")
class blind_queries_spoil_gradients_of_blocks(Chunked):
    """Backwards, the 0 / 0 of a query without keys, which the output does not show, comes back as NaN."""

    def divided(self, held: Running) -> Var:
        output, blind = super().divided(held), held.total.value[..., None] == 0
        return node(output.value, (output,), lambda g: (np.where(blind, np.nan, g),))
