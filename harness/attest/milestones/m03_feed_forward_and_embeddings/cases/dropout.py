"""Samples that show dropout bare: what is dropped is an exact zero, what is kept is known.

Shapes: B batch, T positions, D width; masks are True where a number was dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from attest.contract import OPERATIONS, Array, Config, Form, float_dtype
from attest.contract.parameters import shapes
from attest.judging.cases import OperationCase
from attest.judging.inputs import inputs_of
from attest.judging.options import OTHER_ACTIVATION
from attest.outcomes import Expected
from attest.reference.oracle import EPSILON, expected

LAYER = {
    "D": "d_model",
    "H": "num_heads",
    "norm": "norm",
    "activation": "activation",
    "rate": "dropout",
}
SUBLAYERS = {
    "encoder_layer": ("self_attention", "feed_forward"),
    "decoder_layer": ("self_attention", "cross_attention", "feed_forward"),
}


# Their 1 / (1 - p) and sums are coarse: one rate, whose kept and dropped numbers stay far apart, is enough.
NARROW = ("bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class DropoutCase(OperationCase):
    """A case with a rate: one rate alone where every config costs a build, and in half precision."""

    rate: float = 0.4

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"rate": 0.4}

    def settled(self) -> Self:
        return self.but(rate=0.4) if self.dtype in NARROW else self


@dataclass(frozen=True, kw_only=True)
class EmbeddedSample(DropoutCase):
    """Tokens between 1 and 2, so that scaled tokens plus positions are never zero."""

    kind: ClassVar[str] = "embedded"
    operates: ClassVar[str] = "input_embedding"
    settings: ClassVar[Mapping[str, str]] = {
        "D": "d_model",
        "V": "source_vocab",
        "T": "max_len",
        "rate": "dropout",
    }

    B: int = 4
    T: int = 32
    D: int = 32
    V: int = 16

    @property
    def parameters(self) -> dict[str, Array]:
        return {"weight": self.table}

    @property
    def inputs(self) -> dict[str, Any]:
        return {"ids": self.ids}

    @cached_property
    def table(self) -> Array:
        return (1 + np.random.default_rng(0).random((self.V, self.D))).astype(float_dtype(self.dtype))

    @cached_property
    def ids(self) -> Array:
        """No padding: its row would get no gradient."""
        return np.random.default_rng(1).integers(1, self.V, (self.B, self.T))

    @property
    def kept(self) -> Expected:
        """A number that was kept."""
        factor = 1 / (1 - self.rate)
        return Expected(self.output.value * factor, 2 * factor * self.output.bound)

    def gradient(self, dropped: Array) -> Array:
        """(V, D): what the table gets when these numbers were dropped."""
        # The lookup is scaled by sqrt(D) (section 3.4) before dropout.
        factor = np.sqrt(self.D) / (1 - self.rate)
        total = np.zeros((self.V, self.D))
        given = factor * self.cotangents()["output"].astype(np.float64)
        np.add.at(total, self.ids, np.where(dropped, 0.0, given))
        return total


@dataclass(frozen=True, kw_only=True)
class LayerSample(DropoutCase):
    """A layer whose weights are set so that its output shows what was dropped."""

    settings: ClassVar[Mapping[str, str]] = LAYER
    constants: ClassVar[Mapping[str, Any]] = {"d_ff": 16}

    part: str = "encoder_layer"
    norm: str = "pre"
    activation: str = "relu"

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        return ({"activation": OTHER_ACTIVATION[self.activation]},)

    @property
    def operation(self) -> str:
        return self.part


@dataclass(frozen=True, kw_only=True)
class BareLayer(LayerSample):
    """A layer whose sublayers put out constants on even features and zero on odd ones, whatever comes in.

    All weights are zero but the last bias of each sublayer, so dropout on attention weights and inside the
    feed-forward network cannot be seen. x has few binary digits: adding zero leaves every bit of it.
    """

    kind: ClassVar[str] = "bare"

    B: int = 4
    T: int = 16
    D: int = 64
    H: int = 4

    @property
    def narrowed(self) -> dict[str, Any]:
        """As many numbers, in a layer of the size of M4."""
        return {**super().narrowed, "B": 16, "T": 32, "D": 8, "H": 2}

    @property
    def sublayers(self) -> tuple[str, ...]:
        return SUBLAYERS[self.operation]

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Quarters; every other odd feature is negative, so that no row of them is constant."""
        rng = np.random.default_rng(3)
        names = ("x", "memory") if self.operation == "decoder_layer" else ("x",)
        quarters = {name: rng.integers(-4, 5, (self.B, self.T, self.D)) / 4 for name in names}
        for values in quarters.values():
            values[..., 1::4] = np.abs(values[..., 1::4]) + 0.25
            values[..., 3::4] = -np.abs(values[..., 3::4])
        return {name: values.astype(float_dtype(self.dtype)) for name, values in quarters.items()}

    def showing(self, constants: dict[str, float]) -> dict[str, Array]:
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
        x: Array = self.inputs["x"].astype(np.float64)
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
class OpenAttention(LayerSample):
    """A pre-norm layer in which one attention shows its weights: feature h*d + j is the weight of key j.

    Values are one-hot in the key, W_O is the identity, the other sublayers give zero.
    """

    kind: ClassVar[str] = "open"

    attention: str = "self_attention"
    B: int = 8
    T: int = 6
    D: int = 16
    H: int = 2

    @property
    def narrowed(self) -> dict[str, Any]:
        return {**super().narrowed, "T": 4, "D": 8}

    @cached_property
    def inputs(self) -> dict[str, Any]:
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
    def attention_parameters(self) -> dict[str, Array]:
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
        return silent | {
            f"{self.attention}.{name}": value for name, value in self.attention_parameters.items()
        }

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
        return expected("multi_head_attention", wide, self.attention_parameters, given)["output"].value


@dataclass(frozen=True, kw_only=True)
class QuietCase(OperationCase):
    """Any operation that reads a rate, small. Where every config costs a build three operations are kept."""

    kind: ClassVar[str] = "quiet"

    part: str = "encoder_layer"

    @property
    def narrowed(self) -> dict[str, Any]:
        kept = self.part == "input_embedding" or self.record.form is Form.MODEL
        return {} if kept else {"part": "encoder_layer"}

    @property
    def operation(self) -> str:
        return self.part

    @property
    def config(self) -> Config:
        """A few layers; the model has the sizes of M5 where every config costs a build."""
        small = Config(d_model=8, num_heads=2, d_ff=16, num_encoder_layers=2, num_decoder_layers=2)
        small = small.but(source_vocab=11, target_vocab=11, max_len=8, dropout=0.4, dtype=self.dtype)
        if not self.fixed or self.record.form is not Form.MODEL:
            return small
        return small.but(
            d_model=32, d_ff=64, num_encoder_layers=1, num_decoder_layers=1, max_len=128, dropout=0.3
        )

    @cached_property
    def inputs(self) -> dict[str, Any]:
        return inputs_of(self.record, self.config, {"B": 3, "T": 5, "S": 5}, self.rng())


def quiet_cases(dtype: str) -> list[QuietCase]:
    """Every operation that maps arrays to arrays and reads the rate."""
    rated = [name for name, record in OPERATIONS.items() if record.computes and "dropout" in record.reads]
    return [QuietCase(part=name, dtype=dtype) for name in rated]


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
