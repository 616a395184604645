"""Cases of single layers and of their gradients.

Shapes: x (B, T, D), logits (B, T, V), labels (B, T), a softmax over S entries, a linear map to F features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Kind, float_dtype
from attest.judging.cases import REGIMES, OperationCase, dtypes, seeds

OWN = ("linear", "activation", "softmax", "cross_entropy")  # operations of this milestone
NORMS = ("layer_norm", "rms_norm")  # of earlier ones, whose backward passes are tried here too
LEARNED = ("linear", "layer_norm", "rms_norm")
ACTIVATIONS = ("relu", "gelu", "silu")
# Each piece by its name in a report: the operation, and of an activation which one.
PIECES = (
    ("linear", "relu"),
    *(("activation", a) for a in ACTIVATIONS),
    ("softmax", "relu"),
    ("cross_entropy", "relu"),
)
HUGE = 1e4  # its exponential is beyond every float
ANY_SIZE = ("unit", "huge", "large", "tiny", "offset")
KINK = 1e-3  # numbers are kept so far from zero, where the slope of ReLU jumps


@dataclass(frozen=True, kw_only=True)
class PieceCase(OperationCase):
    """One layer by itself, with sizes that all differ where they can."""

    kind: ClassVar[str] = "piece"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    settings: ClassVar[Mapping[str, str]] = {"D": "d_model", "F": "d_ff", "activation": "activation"}
    stands_for: ClassVar[Mapping[str, str]] = {"S": "S", "V": "target_vocab"}

    layer: str = "linear"
    B: int = 1
    T: int = 1
    D: int = 4
    F: int = 3
    S: int = 5
    V: int = 7
    activation: str = "relu"

    @property
    def operation(self) -> str:
        return self.layer

    @property
    def d(self) -> int:
        """The width of what an activation reads, which no config fixes."""
        return self.D

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"D": 8, "F": 16, "activation": "relu"}

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        """One activation suffices."""
        others = [a for a in ACTIVATIONS if a != self.activation]
        return tuple({"activation": a} for a in others) if self.layer == "activation" else ()

    @property
    def label(self) -> str:
        """The layer as people call it."""
        return self.activation if self.layer == "activation" else self.layer

    @property
    def regimes(self) -> tuple[str, ...]:
        return (self.label, *super().regimes)

    def each(self, impl: JudgedImplementation) -> Iterator[Self]:
        """This case for every piece and norm that is offered, in the most exact dtype."""
        norms = tuple((norm, "relu") for norm in NORMS)
        for layer, activation in (*PIECES, *norms):
            case = self.but(layer=layer, activation=activation).sharpest(impl)
            if impl.offers(layer) and impl.can_build(layer, case.config):
                yield case

    @cached_property
    def inputs(self) -> dict[str, Any]:
        rng, made = self.rng(), {}
        for name, port in self.record.takes.items():
            shape = self.sizes(port.shape)
            if port.kind is Kind.IDS:
                made[name] = rng.integers(0, self.V, shape)
            elif self.regime == "huge":
                factor = self.in_range(HUGE)
                made[name] = (rng.standard_normal(shape) * factor).astype(float_dtype(self.dtype))
            else:
                made[name] = self.draw(rng, *shape)
        return made

    @cached_property
    def smooth_inputs(self) -> dict[str, Any]:
        """The same without numbers next to zero."""
        return {name: _off_zero(x) if x.dtype.kind == "f" else x for name, x in self.inputs.items()}

    def cotangents(self) -> dict[str, Array]:
        """Random ones, also for a loss, which has no axis."""
        name, shape = next(iter(self.record.gives.items()))
        drawn = np.asarray(self.rng(11).standard_normal(self.sizes(shape)))
        return {name: drawn.astype(float_dtype(self.dtype))}


def _off_zero(x: Array) -> Array:
    moved: Array = np.where(np.abs(x) < KINK, np.copysign(KINK, x), x).astype(x.dtype)
    return moved


@st.composite
def piece_cases(
    draw: st.DrawFn,
    *,
    layers: tuple[str, ...] = OWN,
    activations: tuple[str, ...] = ACTIVATIONS,
    regimes: tuple[str, ...] = REGIMES,
    min_width: int = 1,
) -> PieceCase:
    """All layers, widths from 1, a batch of 1."""
    layer = draw(st.sampled_from(layers))
    chosen = draw(st.sampled_from(regimes))
    if chosen == "huge" and layer in ("linear", "activation"):
        chosen = "large"
    return PieceCase(
        layer=layer,
        B=draw(st.integers(1, 3)),
        T=draw(st.integers(1, 4)),
        D=draw(st.integers(min_width, 6)),
        F=draw(st.integers(1, 5)),
        S=draw(st.integers(min_width, 6)),
        V=draw(st.integers(2, 7)),
        activation=draw(st.sampled_from(activations)) if layer == "activation" else "relu",
        regime=chosen,
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
