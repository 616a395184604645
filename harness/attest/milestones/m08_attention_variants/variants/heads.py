"""Correct grouped heads, windows, caches and backends in unusual clothes: every criterion lets them live.

Shapes: q (B, H, T, d), k and v (B, G, S, d).
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import variant
from attest.milestones.m08_attention_variants.defects.backends import SeveralBackends
from attest.reference import ops
from attest.reference.decoding.text_cache import KeysAndValues, TextCache, TextState
from attest.reference.parts.attention import Attention
from attest.reference.parts.heads import HeadByHead, MultiHead
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf


@variant("M8")
class head_by_head(HeadByHead):
    """A loop over the query heads, each with the rows of its key head."""


@variant("M8")
class grouped_by_broadcast(MultiHead):
    """Queries (B, G, H / G, T, d) against keys (B, G, 1, S, d): nothing is repeated."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        H, G = self.config.num_heads, self.config.kv_heads
        q = self.turned_queries(self.split(self.parts.projections.project_q(query, p), H), p, where)
        B, _, T, d = q.shape
        S = k.shape[2]
        allowed = self.allowed_for(self.parts.masks.within_window(where.mask, where, T, S), B, T, S)
        bias, sinks = self.bias(p, where, T, S), self.sinks(p, where)
        inside = where.but(
            mask=None if allowed is None else allowed[:, :, None],
            bias=None if bias is None else ops.reshape(bias, (bias.shape[0], G, H // G, T, S)),
            sinks=None if sinks is None else ops.reshape(sinks, (G, H // G, 1, 1)),
        )
        keys, values = (ops.reshape(x, (B, G, 1, S, d)) for x in (k, v))
        heads = self.parts.attention(ops.reshape(q, (B, G, H // G, T, d)), keys, values, inside)
        merged = self.merge(ops.reshape(heads["output"], (B, H, T, d)))
        weights = ops.reshape(heads["weights"], (B, H, T, S))
        return {"output": self.combine(merged, p), "weights": weights}


@variant("M8")
class sinks_by_their_share(Attention):
    """The softmax over the keys, times what the sink leaves them: a sigmoid of log-sum-exp minus sink."""

    def beside_sinks(self, scores: Var, sinks: Var, allowed: Array | None) -> Var:
        seen: Array = np.broadcast_to(True if allowed is None else allowed, scores.shape)
        blind: Array = ~np.any(seen, axis=-1, keepdims=True)
        shown = seen | blind  # a blind query is given keys, and all its weights are set to zero
        total = ops.reshape(ops.log_sum_exp(scores, shown), (*scores.shape[:-1], 1))
        above = ops.sub(total, sinks)
        share = 1 / (1 + np.exp(-above.value))
        weights = ops.mul(ops.softmax(scores, shown), ops.elementwise(above, share, share * (1 - share)))
        return ops.where(~blind, weights, 0.0)


@variant("M8")
class window_by_slicing(MultiHead):
    """Where positions are counted, two queries at a time read the keys that their window reaches."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        W, T, S = self.config.window, query.shape[1], k.shape[2]
        if self.config.window_sides != "before":
            return super().attend(query, k, v, p, where)
        if W is None or where.positions is not None or T != S or where.bias is not None or T < 3:
            return super().attend(query, k, v, p, where)
        found = [self._slice(query, k, v, p, where, first, W) for first in range(0, T, 2)]
        return {"output": ops.concat(found, axis=1)}

    def _slice(self, query: Var, k: Var, v: Var, p: Scope, where: Where, first: int, W: int) -> Var:
        T = query.shape[1]
        last, start = min(first + 2, T), max(0, first - W + 1)
        rows, keys = slice(first, last), slice(start, last)
        mask = where.mask
        if mask is not None:
            mask = np.broadcast_to(mask, (len(k.value), T, T))[:, rows, keys]
        places = np.broadcast_to(where.queries(T), (len(k.value), T))
        inside = where.but(mask=mask, positions=places[:, rows], key_positions=places[:, keys])
        near = [ops.index(x, (slice(None), slice(None), keys)) for x in (k, v)]
        few = ops.index(query, (slice(None), rows))
        return super().attend(few, near[0], near[1], p, inside)["output"]


@variant("M8")
class cache_presents_the_window(TextCache):
    """A step reads the keys of its window alone; a single token reads them rotated, as a ring holds them."""

    def order(self, length: int, new: int) -> Array:
        """The places of the keys that are presented."""
        W = self.config.window
        first = 0 if W is None else max(0, length - new - (W - 1))
        places: Array = np.arange(first, length)
        return np.roll(places, 1) if new == 1 else places

    def place(self, state: TextState, positions: Array) -> Where:
        order = self.order(state.length, positions.shape[1])
        where = super().place(state, positions)
        return where.but(mask=state.real[:, None, order], key_positions=state.positions[:, order])

    def cached_layer(self, x: Var, held: KeysAndValues, p: Scope, where: Where) -> tuple[Var, KeysAndValues]:
        own, past = p.at("self_attention"), where.but(causal=True)
        grown = [held]

        def attend_to_past(y: Var) -> Var:
            grown.append(self.grow(held, y, own, past))
            order = self.order(grown[-1].keys.array.shape[2], y.shape[1])
            k, v = (leaf(kept.array[:, :, order]) for kept in (grown[-1].keys, grown[-1].values))
            return self.parts.heads.attend(y, k, v, own, past)["output"]

        return self.parts.layers.causal_block(x, attend_to_past, p), grown[-1]


@variant("M8")
class two_backends_that_agree(SeveralBackends):
    """Two backends; the second computes head by head."""

    second = (HeadByHead,)
