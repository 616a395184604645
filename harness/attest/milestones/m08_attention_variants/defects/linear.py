"""Defects of attention with a kernel.

Shapes: q (B, H, T, d), k (B, H, S, d), v (B, H, S, d_v), weights (B, H, T, S).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.linear_attention import LinearAttention
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var, detach, node


@defect("M8.10")
class normaliser_without_history(LinearAttention):
    """Where it is causal, the normaliser is that of the newest key alone."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> Var:
        weights = self.weights(q, k, self.allowed(where, q, k))
        if not where.causal:
            return self.divided(ops.mix(weights, v), self.normaliser(weights))
        T, S = q.shape[-2], k.shape[-2]
        newest = np.arange(S)[None, :] == np.arange(T)[:, None] + S - T
        return self.divided(ops.mix(weights, v), self.normaliser(ops.where(newest, weights, 0.0)))


@defect("M8.10")
class normaliser_missing(LinearAttention):
    """The mixture is returned without its division."""

    def divided(self, mixed: Var, total: Var) -> Var:
        return mixed


@defect("M8.10")
class normaliser_counts_keys(LinearAttention):
    """The mixture is divided by the number of visible keys."""

    def divided(self, mixed: Var, total: Var) -> Var:
        return ops.scale(mixed, 1.0 / self.seen)

    def allowed(self, where: Where, q: Var, k: Var) -> Array | None:
        allowed = super().allowed(where, q, k)
        shape = (*q.shape[:-1], k.shape[-2])
        full = np.ones(shape, bool) if allowed is None else np.broadcast_to(allowed, shape)
        self.seen = np.maximum(full.sum(-1, keepdims=True), 1)
        return allowed


@defect("M8.10")
class state_not_carried(LinearAttention):
    """Where it is causal, sums start anew every second key: a chunk does not see those before."""

    def allowed(self, where: Where, q: Var, k: Var) -> Array | None:
        allowed = super().allowed(where, q, k)
        if not where.causal or allowed is None:
            return allowed
        T, S = q.shape[-2], k.shape[-2]
        place = np.arange(T)[:, None] + S - T
        same: Array = allowed & (np.arange(S)[None, :] // 2 == place // 2)
        return same


@defect("M8.10")
class scale_kept(LinearAttention):
    """Queries are divided by the root of their width before the kernel, as for a softmax."""

    def weights(self, q: Var, k: Var, allowed: Array | None) -> Var:
        return super().weights(ops.scale(q, 1.0 / math.sqrt(max(q.shape[-1], 2))), k, allowed)


@defect("M8.10")
class softmax_of_phi(LinearAttention):
    """The products of features go through a softmax."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> Var:
        scores = ops.matmul(self.features(q), ops.swap(self.features(k)))
        return ops.mix(ops.softmax(scores, self.allowed(where, q, k)), v)


@defect("M8.10")
class elu_without_one(LinearAttention):
    """The features are elu(x): weights may be negative and their sum zero."""

    def features(self, x: Var) -> Var:
        return ops.add(super().features(x), -1.0)


@defect("M8.10")
class relu_plus_one(LinearAttention):
    """The features are relu(x) + 1: below zero nothing is left of the input."""

    def features(self, x: Var) -> Var:
        return ops.add(ops.relu(x), 1.0)


@defect("M8.10")
class features_of_queries_alone(LinearAttention):
    """Keys enter without the kernel."""

    def weights(self, q: Var, k: Var, allowed: Array | None) -> Var:
        weights = ops.matmul(self.features(q), ops.swap(k))
        return weights if allowed is None else ops.where(allowed, weights, 0.0)


@defect("M8.10")
class hidden_keys_in_the_normaliser(LinearAttention):
    """Hidden keys bring no value, and still count in the normaliser."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> Var:
        weights = self.weights(q, k, self.allowed(where, q, k))
        all_keys = self.weights(q, k, self.allowed(where.but(mask=None), q, k))
        return self.divided(ops.mix(weights, v), self.normaliser(all_keys))


@defect("M8.10")
class keys_zeroed_before_the_kernel(LinearAttention):
    """Hidden keys are set to zero before the kernel, which makes ones of them."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> Var:
        if where.mask is None:
            return super().__call__(q, k, v, where)
        shown = np.asarray(where.mask, bool)[:, 0, :][:, None, :, None]
        silent = [ops.where(np.broadcast_to(shown, x.shape), x, 0.0) for x in (k, v)]
        return super().__call__(q, silent[0], silent[1], where.but(mask=None))


@defect("M8.10")
class causal_flag_of_linear_ignored(LinearAttention):
    """Causal calls sum over all keys at once."""

    def allowed(self, where: Where, q: Var, k: Var) -> Array | None:
        return super().allowed(where.but(causal=False), q, k)


@defect("M8.10")
class sums_over_heads(LinearAttention):
    """The normaliser is summed over the heads' axis too."""

    def normaliser(self, weights: Var) -> Var:
        total = super().normaliser(weights)
        everywhere = np.ones((total.shape[1], total.shape[1]))
        mixed = ops.matmul(ops.swap(total, 1, 2), Var(everywhere / total.shape[1]))
        return ops.swap(mixed, 1, 2)


@defect("M8.10")
class epsilon_in_the_normaliser(LinearAttention):
    """1e-3 is added to the normaliser."""

    def normaliser(self, weights: Var) -> Var:
        return ops.add(super().normaliser(weights), 1e-3)


@defect("M8.10")
class linear_causal_top_left(LinearAttention):
    """With more keys than queries the triangle is aligned at the first key."""

    def allowed(self, where: Where, q: Var, k: Var) -> Array | None:
        if not where.causal:
            return super().allowed(where, q, k)
        triangle = np.arange(k.shape[-2])[None, :] <= np.arange(q.shape[-2])[:, None]
        plain = super().allowed(where.but(causal=False), q, k)
        return triangle if plain is None else plain & triangle


@defect("M8.16")
class no_gradient_through_the_normaliser(LinearAttention):
    """The normaliser is detached: keys get a gradient through the mixture alone."""

    def normaliser(self, weights: Var) -> Var:
        return detach(super().normaliser(weights))


@defect("M8.16")
class kernel_of_keys_detached(LinearAttention):
    """The features of the keys carry no gradient."""

    def weights(self, q: Var, k: Var, allowed: Array | None) -> Var:
        return super().weights(q, detach(k), allowed)


@defect("M8.17")
class linear_mask_cut(ReferenceComponent):
    """A mask for more keys than there are is cut to fit."""

    def accept(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(inputs)
        if self.operation == "linear_attention" and given.get("mask") is not None:
            given["mask"] = np.asarray(given["mask"])[..., : np.asarray(given["k"]).shape[-2]]
        return super().accept(given)


@defect("M8.18")
class linear_attention_writes_its_features(ReferenceComponent):
    """The kernel is applied to the caller's queries in place."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if self.operation == "linear_attention":
            q = np.asarray(inputs["q"])
            if q.flags.writeable:
                q[...] = np.where(q > 0, q + 1, np.exp(np.minimum(q, 0)))
        return found


@defect("M8.16")
class blind_rows_spoil_gradients(LinearAttention):
    """Backwards, the 0 / 0 of a query without keys, which the output does not show, comes back as NaN."""

    def divided(self, mixed: Var, total: Var) -> Var:
        output, blind = super().divided(mixed, total), total.value[..., None] == 0
        return node(output.value, (output,), lambda g: (np.where(blind, np.nan, g),))


@defect("M8.10")
class early_queries_read_the_first_key(LinearAttention):
    """Causal with more queries than keys: those before the first key read it all the same."""

    def allowed(self, where: Where, q: Var, k: Var) -> Array | None:
        allowed = super().allowed(where, q, k)
        if not where.causal or allowed is None or q.shape[-2] <= k.shape[-2]:
            return allowed
        early: Array = ~allowed.any(axis=-1, keepdims=True) & (np.arange(k.shape[-2]) == 0)
        return np.asarray(allowed | early)
