"""Correct but unusual feed-forward networks, embeddings, positions and dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.contract import OPERATIONS, Config, float_dtype
from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.implementation import ReferenceImplementation
from attest.reference.parts.dropout import Dropout
from attest.reference.parts.embedding import Embedding
from attest.reference.parts.feed_forward import FeedForward
from attest.reference.parts.norms import Residual, Sublayer
from attest.reference.parts.positions import Sinusoids
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node


@variant("M3")
class table_by_exp_and_log(Sinusoids):
    """Frequencies as exp(-2i ln(10000) / D), worked out in the config's own precision."""

    def angles(self, length: int, width: int) -> Array:
        dtype = float_dtype(self.config.dtype)
        steps: Array = (np.arange(width) // 2 * 2 * (-math.log(10000.0) / width)).astype(dtype)
        positions: Array = np.arange(length)[:, None].astype(dtype)
        return positions * np.exp(steps)

    def table(self, length: int, width: int) -> Array:
        table: Array = super().table(length, width).astype(np.float64)
        return table


@variant("M3")
class table_by_turning(Sinusoids):
    """Each row is the one before it, turned by the angle of its pair."""

    def table(self, length: int, width: int) -> Array:
        turn = np.exp(1j * 10000.0 ** -(np.arange(0, width, 2) / width))
        states = np.ones((length, len(turn)), complex)
        for p in range(1, length):
            states[p] = states[p - 1] * turn
        table = np.empty((length, 2 * len(turn)))
        table[:, 0::2], table[:, 1::2] = states.imag, states.real
        return table[:, :width]


@variant("M3")
class positions_on_the_fly(Sinusoids):
    """No table is kept: each call works out the positions it needs."""

    def buffer(self) -> Array:
        return self.table(self.config.max_len, self.config.d_model)


@variant("M3")
class no_buffers(ReferenceComponent):
    """The table is not among the buffers that the component lists."""

    def buffers(self) -> dict[str, Array]:
        return {}


@variant("M3")
class lookup_by_one_hot(Embedding):
    """Rows are found by a product with one-hot vectors."""

    def embed(self, ids: Array, table: Var) -> Var:
        hot = (ids[..., None] == np.arange(table.shape[0])).astype(np.float64)
        learned = hot * (ids != self.config.pad_id)[..., None]
        back = lambda g: (np.einsum("btv,btd->vd", learned, g),)  # noqa: E731
        return node(hot @ table.value, (table,), back)


@variant("M3")
class scale_inside_a_copy(Embedding):
    """The whole table is scaled before the lookup."""

    def __call__(self, ids: Array, table: Var, where: Where) -> Var:
        tokens = self.embed(ids, ops.scale(table, self.scale()))
        return self.parts.dropout(self.parts.positions.add(tokens, where), "embedding")


@variant("M3")
class dropout_by_masks(Dropout):
    """Masks of zeros and ones are multiplied in, the factor comes after."""

    def __call__(self, x: Var, place: str) -> Var:
        p = self.config.dropout
        if self.noise is None or not p:
            return x
        ones = self.noise.binomial(1, 1.0 - p, x.shape).astype(np.float64)
        return ops.scale(ops.scale(x, ones), 1.0 / (1.0 - p))


@variant("M3")
class dropout_at_required_places_only(Dropout):
    """Nothing is dropped inside attention or the feed-forward network."""

    def __call__(self, x: Var, place: str) -> Var:
        return super().__call__(x, place) if place in ("embedding", "sublayer") else x


@variant("M3")
class attention_dropout_of_its_own(Dropout):
    """Attention weights are dropped at a quarter of the rate, with one mask for all rows of the batch."""

    def __call__(self, x: Var, place: str) -> Var:
        p = self.config.dropout / 4
        if self.noise is None or not p or place != "attention":
            return super().__call__(x, place)
        kept = self.noise.random((1, *x.shape[1:])) >= p
        return ops.scale(x, np.broadcast_to(kept, x.shape) / (1.0 - p))


@variant("M3")
class dropout_before_the_activation(FeedForward):
    """Inside the feed-forward network numbers are dropped before the activation."""

    def __call__(self, x: Var, p: Scope) -> Var:
        inner = self.parts.dropout(self.parts.linear(x, p, "inner"), "feed_forward")
        return self.parts.linear(self.activation(inner), p, "outer")


@variant("M3")
class a_generator_for_each_place(ReferenceComponent):
    """Each place of dropout draws from a separate stream, numbered in the order of use."""

    def noise(self) -> Any:
        return None if self.seed is None else Streams(self.seed)


class Streams:
    """Stands in for a generator."""

    def __init__(self, seed: Any) -> None:
        self.seed, self.used = seed, 0

    def random(self, shape: tuple[int, ...]) -> Array:
        self.used += 1
        return np.random.default_rng([self.seed, self.used]).random(shape)


@variant("M3")
class residual_added_last(Residual):
    """The sublayer's branch is written first, the input added to it."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return ops.add(self.parts.dropout(sublayer(self.parts.norm(x, norm)), "sublayer"), x)
        return self.parts.norm(ops.add(self.parts.dropout(sublayer(x), "sublayer"), x), norm)


@variant("M3")
class only_gelu(ReferenceImplementation):
    """ReLU is not offered."""

    supports: Any = None  # claims nothing: NotImplementedError then says that an option is not offered

    def build(self, operation: str, config: Config, kind: type[ReferenceComponent] | None = None) -> Any:
        if config.activation == "relu" and "d_ff" in OPERATIONS[operation].reads:
            raise NotImplementedError("activation='relu'; gelu is there")
        return super().build(operation, config, kind)


@variant("M3")
class only_relu_with_biases(ReferenceImplementation):
    """GELU and maps without biases are not offered."""

    supports: Any = None  # claims nothing: NotImplementedError then says that an option is not offered

    def build(self, operation: str, config: Config, kind: type[ReferenceComponent] | None = None) -> Any:
        if "d_ff" in OPERATIONS[operation].reads and (config.activation == "gelu" or not config.bias):
            raise NotImplementedError("activation='gelu' or bias=False; relu with biases is there")
        return super().build(operation, config, kind)


@variant("M3")
class only_post_norm(ReferenceImplementation):
    """Pre-norm layers are not offered; dropout is read through the norm."""

    def build(self, operation: str, config: Config, kind: type[ReferenceComponent] | None = None) -> Any:
        if config.norm == "pre":
            raise NotImplementedError("norm='pre'; post is there")
        return super().build(operation, config, kind)


@variant("M3")
class feed_forward_in_two_halves(FeedForward):
    """The inner units are worked out in two groups and added."""

    def __call__(self, x: Var, p: Scope) -> Var:
        inner = self.parts.dropout(self.activation(self.parts.linear(x, p, "inner")), "feed_forward")
        half, width = inner.shape[-1] // 2, inner.shape[-1]
        weight = ops.swap(p["outer.weight"])
        parts = [
            ops.matmul(ops.columns(inner, a, b), ops.index(weight, slice(a, b)))
            for a, b in ((0, half), (half, width))
            if b > a
        ]
        total = parts[0] if len(parts) == 1 else ops.add(parts[0], parts[1])
        bias = p.get("outer.bias")
        return total if bias is None else ops.add(total, bias)
