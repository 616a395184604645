"""Defects of heads that share keys, and of heads of a width of their own.

Shapes: q (B, H, T, d), k and v (B, G, S, d).
"""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.attention import Attention
from attest.reference.parts.dropout import Dropout
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, detach


class _Shared(MultiHead):
    """Heads that find their key head in another way."""

    def chosen(self, head: int) -> int:
        raise NotImplementedError

    def shared(self, x: Var) -> Var:
        return ops.index(x, (slice(None), [self.chosen(h) for h in range(self.config.num_heads)]))


@defect("M8.1")
class tiled_not_repeated(_Shared):
    """Key heads are tiled: query head h reads key head h modulo G."""

    def chosen(self, head: int) -> int:
        return head % self.config.kv_heads


@defect("M8.1")
class tiled_in_training(MultiHead):
    """The path of train mode tiles the key heads: query head h reads key head h modulo G."""

    def shared(self, x: Var) -> Var:
        if self.noise is None:
            return super().shared(x)
        return ops.index(x, (slice(None), np.arange(self.config.num_heads) % self.config.kv_heads))


@defect("M8.1")
class first_kv_head_only(_Shared):
    """Every query head reads the first key head."""

    def chosen(self, head: int) -> int:
        return 0


@defect("M8.1")
class groups_in_reverse(_Shared):
    """The first query heads read the last key head."""

    def chosen(self, head: int) -> int:
        return self.config.kv_heads - 1 - self.group_of(head)


@defect("M8.1")
class groups_of_fixed_size(_Shared):
    """Two query heads share a key head whatever is configured; the last one serves what is left."""

    def chosen(self, head: int) -> int:
        return min(head // 2, self.config.kv_heads - 1)


@defect("M8.1")
class modulo_groups(MultiHead):
    """Queries are split into (d, H) for groups: a head's features are taken from all."""

    def split(self, x: Var, heads: int) -> Var:
        if heads != self.config.num_heads or self.config.kv_heads == heads:
            return super().split(x, heads)
        G, B, T = self.config.kv_heads, x.shape[0], x.shape[1]
        grouped = ops.reshape(x, (B, T, heads // G, G, -1))
        return ops.swap(ops.reshape(ops.swap(grouped, 2, 3), (B, T, heads, -1)), 1, 2)


@defect("M8.1")
class repeated_on_sequence(MultiHead):
    """Keys are repeated along the sequence and then viewed as heads."""

    def shared(self, x: Var) -> Var:
        B, G, S, d = x.shape
        times = self.config.num_heads // G
        longer = ops.index(x, (slice(None), slice(None), np.repeat(np.arange(S), times)))
        return x if times == 1 else ops.reshape(longer, (B, G * times, S, d))


@defect("M8.1")
class kv_averaged(MultiHead):
    """Every query head reads the mean of all key heads."""

    def shared(self, x: Var) -> Var:
        H, G = self.config.num_heads, self.config.kv_heads
        mean = ops.swap(ops.matmul(ops.swap(x, 1, 3), Var(np.full((G, H), 1.0 / G))), 1, 3)
        return x if G == H else mean


@defect("M8.1")
class values_shared_in_another_order(MultiHead):
    """Keys are repeated, values are tiled."""

    def attend(self, query: Var, k: Var, v: Var, p: Scope, where: Where) -> dict[str, Var]:
        G, H = self.config.kv_heads, self.config.num_heads
        order = [(h % G) * (H // G) for h in range(H)]
        every = ops.index(self.shared(v), (slice(None), order))
        first = ops.index(every, (slice(None), [g * (H // G) for g in range(G)]))
        return super().attend(query, k, first if G < H else v, p, where)


@defect("M8.2")
class kv_full_size(ReferenceComponent):
    """Key and value maps are stored with as many heads as the query map."""

    def parameters(self) -> dict[str, Array]:
        made = super().parameters()
        if self.operation != "self_attention" or self.config.kv_heads == self.config.num_heads:
            return made
        times = self.config.num_heads // self.config.kv_heads
        for name in ("key.weight", "value.weight"):
            made[name] = np.repeat(made[name], times, axis=0)
        return made


@defect("M8.2", "M8.1")
class groups_mixed(MultiHead):
    """The last query head of a group reads half of the next group's keys and values."""

    def shared(self, x: Var) -> Var:
        H, G = self.config.num_heads, self.config.kv_heads
        if H == G or G == 1:
            return super().shared(x)
        own = [self.group_of(h) for h in range(H)]
        following = [min(self.group_of(h + 1), G - 1) if h + 1 < H else g for h, g in enumerate(own)]
        mine, theirs = (ops.index(x, (slice(None), heads)) for heads in (own, following))
        return ops.scale(ops.add(mine, theirs), 0.5)


@defect("M8.2")
class extra_map_for_groups(ReferenceComponent):
    """A map from key heads to query heads is learned beside them."""

    def parameters(self) -> dict[str, Array]:
        made = super().parameters()
        if self.operation == "self_attention":
            made["groups.weight"] = np.zeros((self.config.num_heads, self.config.kv_heads), self.dtype)
        return made


@defect("M8.3")
class scale_from_d_model(Attention):
    """Scores are divided by the root of D / H, whatever the width of a head."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        own = self.config.attention_scale
        width = self.config.d_model / self.config.num_heads if where.place != "alone" else q.shape[-1]
        return ops.scale(scores, 1.0 / math.sqrt(width) if own is None else own)


@defect("M8.3")
class reshape_to_d_model(MultiHead):
    """Joined heads are cut or filled with zeros to the model's width before they are mixed."""

    def combine(self, concatenated: Var, p: Scope) -> Var:
        D, width = self.config.d_model, concatenated.shape[-1]
        kept = np.arange(width) < D
        return super().combine(ops.where(kept, concatenated, 0.0) if width > D else concatenated, p)


@defect("M8.3")
class scale_ignored_for_own_widths(Attention):
    """Heads of a width of their own are not scaled."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        if self.config.head_width is not None and self.config.attention_scale is None:
            return scores
        return super().scale(scores, q, k, where)


@defect("M8.15")
class cap_ignored(Attention):
    """Scores are not capped."""

    def capped(self, scores: Var) -> Var:
        return scores


@defect("M8.15")
class cap_ignored_in_training(Attention):
    """The path of train mode has no cap."""

    def capped(self, scores: Var) -> Var:
        return super().capped(scores) if self.noise is None else scores


@defect("M8.15")
class cap_by_clipping(Attention):
    """Scores beyond the cap are cut off, those below stay as they are."""

    def capped(self, scores: Var) -> Var:
        cap = self.config.score_cap
        if cap is None:
            return scores
        inside = np.abs(scores.value) < cap
        return ops.elementwise(scores, np.clip(scores.value, -cap, cap), inside.astype(float))


@defect("M8.15")
class cap_before_the_scale(Attention):
    """Scores are capped first and scaled then."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return super().scale(super().capped(scores), q, k, where)

    def capped(self, scores: Var) -> Var:
        return scores


@defect("M8.16")
class gradient_of_one_query_head(MultiHead):
    """A key head gets the gradient of the first query head of its group alone."""

    def shared(self, x: Var) -> Var:
        H, G = self.config.num_heads, self.config.kv_heads
        if H == G:
            return x
        first = np.array([h % (H // G) == 0 for h in range(H)])[:, None, None]
        repeated = super().shared(x)
        return ops.add(ops.where(first, repeated, 0.0), ops.where(~first, detach(repeated), 0.0))


@defect("M8.17")
class key_heads_rounded(ReferenceComponent):
    """A number of key heads that does not divide is rounded down to one that does."""

    def check_heads(self) -> None:
        G, H = self.config.num_kv_heads, self.config.num_heads
        if "num_kv_heads" in self.reads and G is not None and (not isinstance(G, int) or G < 1 or H % G):
            fits = next(n for n in range(max(1, min(int(G), H)), 0, -1) if H % n == 0)
            self.config = self.config.but(num_kv_heads=fits)
            self.parts = self.parts.but(num_kv_heads=fits)
        super().check_heads()


@defect("M8.19")
class dropped_weights_of_groups_not_raised(Dropout):
    """Where query heads share key heads, kept attention weights are not divided by 1 - p."""

    def __call__(self, x: Var, place: str) -> Var:
        dropped = super().__call__(x, place)
        shared = self.config.kv_heads < self.config.num_heads
        if place == "attention" and shared and self.noise is not None:
            return ops.scale(dropped, 1.0 - self.config.dropout)
        return dropped
