"""Multi-head attention, section 3.2.2 of the paper.

Fewer key heads than query heads are those of https://arxiv.org/abs/2305.13245.

Shapes: B batch, H heads, G key and value heads, T queries, S keys, D width, d width of a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class MultiHead(Part):
    """Split, attend, merge, and mix by the output map."""

    def head_width(self) -> int:
        """d: given, or D / H."""
        width, heads = self.config.d_model, self.config.num_heads
        if self.config.head_width is not None:
            return self.config.head_width
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

    def normed(self, x: Var, p: Scope, name: str) -> Var:
        """Queries or keys (..., d), through their norm where they have one."""
        return self.parts.rms_norm(x, p.at(name)) if self.config.qk_norm else x

    def turned_queries(self, q: Var, p: Scope, where: Where) -> Var:
        """Queries (..., T, d) as attention compares them: the norm comes before the position."""
        return self.parts.positions.rotate(self.normed(q, p, "query_norm"), where)

    def turned_keys(self, k: Var, p: Scope, where: Where) -> Var:
        """The same for keys."""
        return self.parts.positions.rotate(self.normed(k, p, "key_norm"), where)

    def keys_and_values(self, x: Var, p: Scope, where: Where) -> tuple[Var, Var]:
        """(B, G, S, d) each; the positions of `x` begin at `where.offset`."""
        G = self.config.kv_heads
        k, v = self.parts.projections.key_value(x, p)
        return self.turned_keys(self.split(k, G), p, where), self.split(v, G)

    def group_of(self, head: int) -> int:
        """The key head that a query head reads: consecutive ones share."""
        return head // (self.config.num_heads // self.config.kv_heads)

    def shared(self, x: Var) -> Var:
        """(B, G, S, d) to (B, H, S, d): each query head with the keys or values of its group."""
        if self.config.kv_heads == self.config.num_heads:
            return x
        return ops.index(x, (slice(None), [self.group_of(h) for h in range(self.config.num_heads)]))

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        """The heads attend to keys and values that are already split; W_O mixes what they bring back."""
        q = self.split(self.parts.projections.project_q(query, p), self.config.num_heads)
        B, _, T, _ = q.shape
        S = k.shape[2]
        mask = self.parts.masks.within_window(where.mask, where, T, S)
        inside = where.but(
            mask=self.allowed_for(mask, B, T, S), bias=self.bias(p, where, T, S), sinks=self.sinks(p, where)
        )
        turned = self.turned_queries(q, p, where)
        heads = self.parts.attention(turned, self.shared(k), self.shared(v), inside)
        return {"output": self.combine(self.merge(heads["output"]), p), "weights": heads["weights"]}

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        """(B or 1, H, T, S) of positions that have one."""
        bias = self.parts.positions.bias(p, where, T, S)
        return None if bias is None else ops.swap(bias, 0, 1)

    def sinks(self, p: Scope, where: Where) -> Var | None:
        """(H, 1, 1): a score of each head that every query of it sees."""
        if not self.config.sinks or where.place == "cross":
            return None
        return ops.reshape(p["sinks.weight"], (self.config.num_heads, 1, 1))

    def combine(self, concatenated: Var, p: Scope) -> Var:
        """W_O over the concatenated heads."""
        return self.parts.linear(concatenated, p, "output")

    def __call__(self, query: Var, key_value: Var, p: Scope, where: Where) -> dict[str, Var]:
        """output (B, T, D) and weights (B, H, T, S)."""
        self.head_width()
        k, v = self.keys_and_values(key_value, p, where)
        return self.attend(query, k, v, p, where)


class HeadByHead(MultiHead):
    """The oracle's: a loop over the heads' rows of the weights, with no reshape and no transpose."""

    def __call__(self, query: Var, key_value: Var, p: Scope, where: Where) -> dict[str, Var]:
        d, maps, positions = self.head_width(), self.parts.projections, self.parts.positions
        q, k, v = maps.project_q(query, p), maps.project_k(key_value, p), maps.project_v(key_value, p)
        T, S = query.shape[1], key_value.shape[1]
        bias, sinks = positions.bias(p, where, T, S), self.sinks(p, where)
        inside = where.but(mask=self.parts.masks.within_window(where.mask, where, T, S))
        heads = []
        for head in range(self.config.num_heads):
            group = self.group_of(head)
            q_h = ops.columns(q, head * d, (head + 1) * d)
            k_h, v_h = (ops.columns(x, group * d, (group + 1) * d) for x in (k, v))
            own = inside.but(
                bias=None if bias is None else ops.index(bias, head),
                sinks=None if sinks is None else ops.index(sinks, head),
            )
            turned = self.turned_queries(q_h, p, where), self.turned_keys(k_h, p, where)
            heads.append(self.parts.attention(*turned, v_h, own))
        joined = ops.concat([head["output"] for head in heads])
        weights = ops.stack([head["weights"] for head in heads], axis=1)
        return {"output": self.combine(joined, p), "weights": weights}


@formula("multi_head_attention")
def _multi_head_attention(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return parts.heads(inputs["query"], inputs["key_value"], p, Where.of(inputs, "heads"))


@formula("self_attention")
def _self_attention(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return parts.heads(inputs["x"], inputs["x"], p, Where.of(inputs, "heads"))
