"""Defects of self-attention with positions. Shapes: x (B, T, D), q and k (..., T, d)."""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.milestones.m07_positions.variants import interleaved_by_permuted_weights
from attest.reference import ops
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.positions import Positions
from attest.reference.parts.relative_positions import Rotary
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Var


@defect("M7.12")
class positions_ignored_in_attention(MultiHead):
    """Attention counts its positions from 0, whatever was given."""

    def __call__(self, query: Var, key_value: Var, p: Scope, where: Where) -> dict[str, Var]:
        return super().__call__(query, key_value, p, where.but(positions=None))


@defect("M7.12")
class positions_missing_in_attention(MultiHead):
    """Attention knows nothing of positions: nothing is turned and nothing is added to the scores."""

    def turned_queries(self, q: Var, p: Scope, where: Where) -> Var:
        return self.normed(q, p, "query_norm")

    def turned_keys(self, k: Var, p: Scope, where: Where) -> Var:
        return self.normed(k, p, "key_norm")

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return None


@defect("M7.12")
class bias_missing_in_training(MultiHead):
    """The path of train mode has no place for a bias on the scores."""

    def bias(self, p: Scope, where: Where, T: int, S: int) -> Var | None:
        return super().bias(p, where, T, S) if self.noise is None else None


@defect("M7.12")
class none_is_turned(Positions):
    """Without positions queries and keys are turned all the same."""

    def rotate(self, x: Var, where: Where) -> Var:
        if where.place == "cross" or x.shape[-1] % 2 or self.config.positions != "none":
            return x
        return Rotary(self.config.but(rotary_fraction=1.0), self.parts).rotate(x, where)


@defect("M7.7")
class norm_after_rotation(MultiHead):
    """Queries and keys are turned first and normed then."""

    def turned_queries(self, q: Var, p: Scope, where: Where) -> Var:
        return self.normed(self.parts.positions.rotate(q, where), p, "query_norm")

    def turned_keys(self, k: Var, p: Scope, where: Where) -> Var:
        return self.normed(self.parts.positions.rotate(k, where), p, "key_norm")


@defect("M7.7")
class norm_of_heads_has_its_own_eps(MultiHead):
    """The norm of queries and keys adds 1e-5 whatever is configured."""

    def normed(self, x: Var, p: Scope, name: str) -> Var:
        usual = self.parts.but(norm_eps=1e-5)
        return usual.rms_norm(x, p.at(name)) if self.config.qk_norm else x


@defect("M7.7")
class norm_over_all_heads(MultiHead):
    """The mean square of queries is taken over all heads of a token."""

    def turned_queries(self, q: Var, p: Scope, where: Where) -> Var:
        if not self.config.qk_norm:
            return super().turned_queries(q, p, where)
        H = q.shape[1]
        gains = ops.concat([p["query_norm.weight"]] * H)
        normed = self.split(self.parts.rms_norm(self.merge(q), Scope({"weight": gains})), H)
        return self.parts.positions.rotate(normed, where)


@defect("M7.7")
class norm_of_queries_and_keys_missing(MultiHead):
    """Queries and keys have gains that nothing reads."""

    def normed(self, x: Var, p: Scope, name: str) -> Var:
        return x


@defect("M7.7")
class norm_of_queries_alone(MultiHead):
    """Keys are not normed."""

    def normed(self, x: Var, p: Scope, name: str) -> Var:
        return super().normed(x, p, name) if name == "query_norm" else x


@defect("M7.7")
class gains_of_the_other_norm(MultiHead):
    """Queries have the gains of keys, and keys those of queries."""

    def normed(self, x: Var, p: Scope, name: str) -> Var:
        return super().normed(x, p, "key_norm" if name == "query_norm" else "query_norm")


@defect("M7.5")
class permutes_query_only(interleaved_by_permuted_weights):
    """A converter for interleaved pairs permutes queries and leaves keys as they are."""

    def permuted(self, x: Var, p: Scope, name: str) -> Var:
        return super().permuted(x, p, name) if name == "query" else x


@defect("M7.5")
class permutes_bias_not(interleaved_by_permuted_weights):
    """A converter for interleaved pairs permutes the rows of weights and leaves biases as they are."""

    def permuted(self, x: Var, p: Scope, name: str) -> Var:
        bias = p.get(f"{name}.bias")
        if bias is None:
            return super().permuted(x, p, name)
        own = ops.reshape(bias, (x.shape[1], 1, x.shape[3]))
        return ops.add(super().permuted(ops.sub(x, own), p, name), own)


@defect("M7.5")
class permutes_gains_not(interleaved_by_permuted_weights):
    """A converter for interleaved pairs forgets the norms of queries and keys."""

    def gains(self, gains: Var) -> Var:
        return gains


@defect("M7.5")
class permutation_over_d_model(interleaved_by_permuted_weights):
    """A converter for interleaved pairs permutes across all heads at once."""

    def permuted(self, x: Var, p: Scope, name: str) -> Var:
        heads = x.shape[1]
        width = heads * x.shape[-1]
        order = [*range(0, width, 2), *range(1, width, 2)]
        return self.split(ops.index(self.merge(x), (..., order)), heads)


@defect("M7.5")
class permuted_the_wrong_way(interleaved_by_permuted_weights):
    """A converter for interleaved pairs applies the inverse permutation."""

    def order(self) -> list[int]:
        return [int(i) for i in np.argsort(super().order())]
