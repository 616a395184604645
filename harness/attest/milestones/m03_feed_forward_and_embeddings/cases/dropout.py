"""Samples that show dropout bare: what is dropped is an exact zero, what is kept is known.

Shapes: B batch, T positions, D width; masks are True where a number was dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from attest.contract import Array, Config, float_dtype
from attest.contract.parameters import shapes
from attest.outcomes import Expected
from attest.reference.oracle import EPSILON, expected

SUBLAYERS = {
    "encoder_layer": ("self_attention", "feed_forward"),
    "decoder_layer": ("self_attention", "cross_attention", "feed_forward"),
}


@dataclass(frozen=True, kw_only=True)
class EmbeddedSample:
    """Tokens between 1 and 2, so that scaled tokens plus positions are never zero."""

    rate: float
    dtype: str
    B: int = 4
    T: int = 32
    D: int = 32
    V: int = 16

    @property
    def config(self) -> Config:
        return Config(
            d_model=self.D,
            num_heads=1,
            source_vocab=self.V,
            max_len=self.T,
            dropout=self.rate,
            dtype=self.dtype,
        )

    @cached_property
    def table(self) -> Array:
        return (1 + np.random.default_rng(0).random((self.V, self.D))).astype(float_dtype(self.dtype))

    @cached_property
    def ids(self) -> Array:
        """No padding: its row would get no gradient."""
        return np.random.default_rng(1).integers(1, self.V, (self.B, self.T))

    @cached_property
    def expected(self) -> Expected:
        """Without dropout."""
        return expected("input_embedding", self.config, {"weight": self.table}, {"ids": self.ids})["output"]

    @property
    def kept(self) -> Expected:
        """A number that was kept."""
        factor = 1 / (1 - self.rate)
        return Expected(self.expected.value * factor, 2 * factor * self.expected.bound)

    def cotangent(self) -> Array:
        return np.random.default_rng(2).standard_normal(self.expected.value.shape).astype(self.table.dtype)

    def gradient(self, dropped: Array) -> Array:
        """(V, D): what the table gets when these numbers were dropped."""
        factor = np.sqrt(self.D) / (1 - self.rate)
        total = np.zeros((self.V, self.D))
        np.add.at(total, self.ids, np.where(dropped, 0.0, factor * self.cotangent().astype(np.float64)))
        return total


@dataclass(frozen=True, kw_only=True)
class BareLayer:
    """A layer whose sublayers put out constants on even features and zero on odd ones, whatever comes in.

    All weights are zero but the last bias of each sublayer, so dropout on attention weights and inside the
    feed-forward network cannot be seen. x has few binary digits: adding zero leaves every bit of it.
    """

    operation: str
    norm: str
    rate: float
    dtype: str
    activation: str = "relu"
    B: int = 4
    T: int = 16
    D: int = 64
    H: int = 4

    def but(self, **changes: Any) -> Self:
        return replace(self, **changes)

    @property
    def sublayers(self) -> tuple[str, ...]:
        return SUBLAYERS[self.operation]

    @property
    def config(self) -> Config:
        return Config(
            d_model=self.D,
            num_heads=self.H,
            d_ff=16,
            norm=self.norm,
            activation=self.activation,
            dropout=self.rate,
            dtype=self.dtype,
        )

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """Quarters; every other odd feature is negative, so that no row of them is constant."""
        rng = np.random.default_rng(3)
        names = ("x", "memory") if self.operation == "decoder_layer" else ("x",)
        quarters = {name: rng.integers(-4, 5, (self.B, self.T, self.D)) / 4 for name in names}
        for values in quarters.values():
            values[..., 1::4] = np.abs(values[..., 1::4]) + 0.25
            values[..., 3::4] = -np.abs(values[..., 3::4])
        return {name: values.astype(float_dtype(self.dtype)) for name, values in quarters.items()}

    def parameters(self, constants: dict[str, float]) -> dict[str, Array]:
        """Norms 1 and 0, everything else 0 but the named sublayers' last bias."""
        values = silent_parameters(self.operation, self.config)
        for name, constant in constants.items():
            last = "outer" if name == "feed_forward" else "output"
            values[f"{name}.{last}.bias"][0::2] = constant
        return values

    @property
    def powers(self) -> dict[str, float]:
        """1, 2, 4: a sum of some of them tells which."""
        return {name: 2.0**i for i, name in enumerate(self.sublayers)}

    @property
    def tolerance(self) -> float:
        """For sums of a few numbers below 16."""
        return min(0.2, 16 * 16 * EPSILON[self.dtype])

    def base(self, index: int) -> Array:
        """What a post-norm layer passes to sublayer `index` where the ones before it give zero."""
        x = self.inputs["x"].astype(np.float64)
        for _ in range(index):
            centred = x - x.mean(-1, keepdims=True)
            x = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + self.config.norm_eps)
        return x

    def undo_norms(self, output: Array, index: int) -> tuple[Array, Array]:
        """What stood before the last norms minus the residual stream: on even features, and on odd ones.

        Norms of weight 1 and bias 0 are, row by row, a stretch and a shift; both are read off the odd
        features, where the sublayer adds nothing.
        """
        y, base = output.astype(np.float64), self.base(index)
        known, seen = base[..., 1::2], y[..., 1::2]
        centred = known - known.mean(-1, keepdims=True)
        stretch = (centred * seen).sum(-1, keepdims=True) / (centred**2).sum(-1, keepdims=True)
        stretch = np.where(np.abs(stretch) < 1e-3, 1e-3, stretch)
        shift = seen.mean(-1, keepdims=True) - stretch * known.mean(-1, keepdims=True)
        added = (y - shift) / stretch - base
        return added[..., 0::2], added[..., 1::2]


@dataclass(frozen=True, kw_only=True)
class OpenAttention:
    """A pre-norm layer in which one attention shows its weights: feature h*d + j is the weight of key j.

    Values are one-hot in the key, W_O is the identity, the other sublayers give zero.
    """

    operation: str
    attention: str
    rate: float
    dtype: str
    activation: str = "relu"
    B: int = 8
    T: int = 6
    D: int = 16
    H: int = 2

    def but(self, **changes: Any) -> Self:
        return replace(self, **changes)

    @property
    def config(self) -> Config:
        return BareLayer(
            operation=self.operation, norm="pre", rate=self.rate, dtype=self.dtype, activation=self.activation
        ).config.but(d_model=self.D, num_heads=self.H)

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """The same sentence in every row; the encoder's last key is hidden."""
        rng = np.random.default_rng(4)
        names = ("x", "memory") if self.operation == "decoder_layer" else ("x",)
        rows = {name: rng.standard_normal((1, self.T, self.D)) for name in names}
        made = {name: np.repeat(row, self.B, 0).astype(float_dtype(self.dtype)) for name, row in rows.items()}
        hidden = np.arange(self.T)[None, None, :] < self.T - 1
        return made if self.operation == "decoder_layer" else {**made, "mask": np.repeat(hidden, self.B, 0)}

    @cached_property
    def streams(self) -> tuple[Array, Array]:
        """Queries and keys as the attention reads them: (1, T, D) each."""
        x = self.inputs["x"][:1].astype(np.float64)
        centred = x - x.mean(-1, keepdims=True)
        normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + self.config.norm_eps)
        crossing = self.attention == "cross_attention"
        return normed, self.inputs["memory"][:1].astype(np.float64) if crossing else normed

    @cached_property
    def own(self) -> dict[str, Array]:
        """Parameters of the attention."""
        rng, width = np.random.default_rng(5), self.D // self.H
        places = np.zeros((self.D, self.T))
        for head in range(self.H):
            places[head * width : head * width + self.T] = np.eye(self.T)
        values: dict[str, Array] = {}
        values |= {name: np.zeros(self.D) for name in ("query.bias", "key.bias", "value.bias", "output.bias")}
        for name in ("query", "key"):
            values[f"{name}.weight"] = rng.standard_normal((self.D, self.D)) / math.sqrt(self.D)
        values["value.weight"] = places @ np.linalg.pinv(self.streams[1][0].T)
        values["output.weight"] = np.eye(self.D)
        return {name: value.astype(float_dtype(self.dtype)) for name, value in values.items()}

    @property
    def parameters(self) -> dict[str, Array]:
        silent = silent_parameters(self.operation, self.config)
        return silent | {f"{self.attention}.{name}": value for name, value in self.own.items()}

    @cached_property
    def shown(self) -> Array:
        """(1, T, D): the weights in their features, without dropout."""
        query, keys = self.streams
        allowed: Array = np.ones((self.T, self.T), bool)
        if self.operation == "encoder_layer":
            allowed = np.repeat(self.inputs["mask"][0], self.T, 0)
        elif self.attention == "self_attention":
            allowed = np.tri(self.T, dtype=bool)
        given = {"query": query, "key_value": keys, "mask": allowed}
        wide = self.config.but(dtype="float64")
        return expected("multi_head_attention", wide, self.own, given)["output"].value


def silent_parameters(operation: str, config: Config) -> dict[str, Array]:
    """Every sublayer gives zero; norms are 1 and 0."""
    dtype = float_dtype(config.dtype)
    return {
        name: (np.ones if name.startswith("norm") and name.endswith("weight") else np.zeros)(shape, dtype)
        for name, shape in shapes(operation, config).items()
    }


def disjoint_pairs(dropped: Array, axis: int) -> tuple[Array, Array]:
    """Neighbours along an axis, no number in two pairs."""
    even = dropped.shape[axis] // 2 * 2
    first = np.take(dropped, np.arange(0, even, 2), axis)
    return first, np.take(dropped, np.arange(1, even, 2), axis)
