"""Scaled dot-product and multi-head attention, as small methods that a defect can replace one at a time.

Shapes: B batch, H heads, T queries, S keys, D width, d = D / H. A mask is True where a query may attend.
"""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Config
from attest.reference import ops
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


class AttentionFormulas:
    """M1 and M2. An instance belongs to one component; `noise` is set while it trains."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.noise: np.random.Generator | None = None  # None: evaluation, nothing is dropped

    def linear(self, x: Var, p: Scope, name: str) -> Var:
        """x W^T + b."""
        y = ops.matmul(x, ops.swap(p[f"{name}.weight"]))
        bias = p.get(f"{name}.bias")
        return y if bias is None else ops.add(y, bias)

    def dropout(self, x: Var, place: str) -> Var:
        """Inverted dropout; `place` is embedding, sublayer, attention or feed_forward."""
        if self.noise is None or not self.config.dropout:
            return x
        kept = self.noise.random(x.shape) >= self.config.dropout
        return ops.scale(x, kept / (1.0 - self.config.dropout))

    def project_q(self, x: Var, p: Scope) -> Var:
        return self.linear(x, p, "query")

    def project_k(self, x: Var, p: Scope) -> Var:
        return self.linear(x, p, "key")

    def project_v(self, x: Var, p: Scope) -> Var:
        return self.linear(x, p, "value")

    def qkv_projection(self, x: Var, p: Scope) -> dict[str, Var]:
        return {"q": self.project_q(x, p), "k": self.project_k(x, p), "v": self.project_v(x, p)}

    def length_mask(self, lengths: Array, size: int) -> Array:
        """(B, 1, S): key j of a row may be seen when j is below the row's length."""
        mask: Array = np.arange(size) < np.asarray(lengths)[:, None]
        return mask[:, None, :]

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        """(B, 1, S): whatever is not padding may be seen."""
        mask: Array = np.asarray(ids) != pad_id
        return mask[:, None, :]

    def causal_allowed(self, T: int, S: int) -> Array:
        """(T, S), aligned at the bottom right: the last query sees every key."""
        allowed: Array = np.arange(S)[None, :] <= np.arange(T)[:, None] + (S - T)
        return allowed

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        """Allowed by all that are given."""
        given = [np.asarray(m).astype(bool) for m in (mask, causal) if m is not None]
        if len(given) == 2:
            both: Array = given[0] & given[1]
            return both
        return given[0] if given else None

    def scores(self, q: Var, k: Var) -> Var:
        return ops.matmul(q, ops.swap(k))

    def scale(self, scores: Var, q: Var, k: Var) -> Var:
        return ops.scale(scores, 1.0 / math.sqrt(q.shape[-1]))

    def weights_from(self, scores: Var, allowed: Array | None) -> Var:
        """Softmax over the keys; a query that may see nothing gets zeros."""
        return ops.softmax(scores, allowed)

    def mix(self, weights: Var, v: Var) -> Var:
        return ops.mix(weights, v)

    def attention(
        self, q: Var, k: Var, v: Var, mask: Array | None = None, causal: bool = False
    ) -> dict[str, Var]:
        """softmax(q k^T / sqrt(d)) v. The weights returned are those before dropout."""
        triangle = self.causal_allowed(q.shape[-2], k.shape[-2]) if causal else None
        allowed = self.combine_masks(mask, triangle)
        weights = self.weights_from(self.scale(self.scores(q, k), q, k), allowed)
        return {"output": self.mix(self.dropout(weights, "attention"), v), "weights": weights}

    def head_width(self) -> int:
        """d = D / H."""
        width, heads = self.config.d_model, self.config.num_heads
        if heads < 1 or width % heads:
            raise ValueError(
                f"num_heads={heads} does not divide d_model={width}; choose a divisor of {width}"
            )
        return width // heads

    def split(self, x: Var, heads: int) -> Var:
        """(B, T, D) to (B, H, T, d): head h has the features h*d to (h+1)*d."""
        B, T, _ = x.shape
        return ops.swap(ops.reshape(x, (B, T, heads, -1)), 1, 2)

    def merge(self, x: Var) -> Var:
        """(B, H, T, d) back to (B, T, D)."""
        B, H, T, d = x.shape
        return ops.reshape(ops.swap(x, 1, 2), (B, T, H * d))

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        """A mask (T, S) or (B or 1, T or 1, S) with a head axis: (B or 1, 1, T or 1, S)."""
        if mask is None:
            return None
        mask = np.asarray(mask)
        return mask[None, None] if mask.ndim == 2 else mask[:, None]

    def keys_and_values(self, x: Var, p: Scope) -> tuple[Var, Var]:
        """(B, H, S, d) each."""
        H = self.config.num_heads
        return self.split(self.project_k(x, p), H), self.split(self.project_v(x, p), H)

    def attend(
        self, query: Var, k: Var, v: Var, p: Scope, mask: Array | None = None, causal: bool = False
    ) -> dict[str, Var]:
        """The heads attend to keys and values that are already split; W_O mixes what they bring back."""
        q = self.split(self.project_q(query, p), self.config.num_heads)
        allowed = self.allowed_for(mask, q.shape[0], q.shape[2], k.shape[2])
        heads = self.attention(q, k, v, allowed, causal)
        return {"output": self.combine(self.merge(heads["output"]), p), "weights": heads["weights"]}

    def combine(self, concatenated: Var, p: Scope) -> Var:
        """W_O over the concatenated heads."""
        return self.linear(concatenated, p, "output")

    def multi_head_attention(
        self, query: Var, key_value: Var, p: Scope, mask: Array | None = None, causal: bool = False
    ) -> dict[str, Var]:
        """output (B, T, D) and weights (B, H, T, S)."""
        self.head_width()
        k, v = self.keys_and_values(key_value, p)
        return self.attend(query, k, v, p, mask, causal)


class HeadByHead(AttentionFormulas):
    """Multi-head attention as a loop over the heads' rows of the weights: no reshape, no transpose."""

    def multi_head_attention(
        self, query: Var, key_value: Var, p: Scope, mask: Array | None = None, causal: bool = False
    ) -> dict[str, Var]:
        d = self.head_width()
        q, k, v = self.project_q(query, p), self.project_k(key_value, p), self.project_v(key_value, p)
        heads = []
        for start in range(0, self.config.d_model, d):
            part = [ops.columns(x, start, start + d) for x in (q, k, v)]
            heads.append(self.attention(part[0], part[1], part[2], mask, causal))
        joined = ops.concat([head["output"] for head in heads])
        weights = ops.stack([head["weights"] for head in heads], axis=1)
        return {"output": self.combine(joined, p), "weights": weights}
