"""Cases of rotary positions. Shapes: x (B, H, T, d), positions (B, T), r features of d are turned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config
from attest.judging.cases import OperationCase, dtypes, picks, regimes, seeds
from attest.judging.options import written_options

FIELDS = ("rotary_base", "rotary_pairing", "rotary_fraction")
LENGTHS = (2, 3, 5, 7, 4, 1)  # a single position shows little, so it is drawn once in six
PLACES: Mapping[str, tuple[int, ...]] = {
    "near": (0, 1, 2, 3, 4, 5),
    "block": (255, 256, 257),  # where a byte ends, and eight bits of a bfloat16
    "mixed": (0, 1, 5, 255, 256, 257, 1850, 4000),
    # So far out the bound of float32 angles is 5 % of x: float64 alone judges it.
    "far": (0, 4000, 65_537, 131_071),
}
FAR = "far"


@dataclass(frozen=True, kw_only=True)
class RotaryCase(OperationCase):
    """`at`: counted (each row from another place), or drawn from one of PLACES."""

    kind: ClassVar[str] = "rotary"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    operates: ClassVar[str] = "rotary"
    stands_for: ClassVar[Mapping[str, str]] = {"H": "num_heads"}
    free: ClassVar[tuple[str, ...]] = FIELDS

    B: int = 1
    H: int = 1
    T: int = 2
    d: int = 4
    at: str = "mixed"

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"H": 2, "d": 8}

    def settled(self) -> Self:
        """With the next width of which the fraction is a whole number of pairs."""
        return self.but(d=fitting_width(self.d, self.config.rotary_fraction))

    def fitted(self, impl: JudgedImplementation) -> Self:
        case = super().fitted(impl)
        return case.but(at="mixed") if case.at == FAR and case.dtype != "float64" else case

    def enlarged(self, width: int) -> Self:
        return super().enlarged(width).but(d=width).settled()

    @property
    def regimes(self) -> tuple[str, ...]:
        config = self.config
        told = (f"base {config.rotary_base:g}", config.rotary_pairing, f"fraction {config.rotary_fraction:g}")
        return (*super().regimes, f"positions {self.at}", *told)

    @property
    def rotated(self) -> int:
        """r."""
        return round(self.d * self.config.rotary_fraction)

    @property
    def x(self) -> Array:
        """The input."""
        return self.inputs["x"]  # type: ignore[no-any-return]

    @cached_property
    def positions(self) -> Array:
        """(B, T)."""
        rng = self.rng(2)
        if self.at == "counted":
            first: Array = rng.integers(0, 300, (self.B, 1))
            return first + np.arange(self.T)
        return rng.choice(np.array(PLACES[self.at]), (self.B, self.T))

    @cached_property
    def inputs(self) -> dict[str, Any]:
        return {**super().inputs, "positions": self.positions}

    def at_positions(self, positions: Array, x: Array | None = None) -> dict[str, Any]:
        """The same x, or another, elsewhere."""
        return self.with_inputs(positions=positions, x=self.x if x is None else x)

    @property
    def zero(self) -> Array:
        """(B, T) of the first position."""
        return np.zeros_like(self.positions)

    @property
    def other_positions(self) -> Array:
        """(B, T): further positions of the same kind."""
        return self.but(seed=self.seed + 1).positions

    @cached_property
    def keys(self) -> Array:
        """(B, H, T, d): a second array to compare with."""
        return self.draw(self.rng(4), self.B, self.H, self.T, self.d)

    def lengths_of_pairs(self, x: Array) -> Array:
        """(B, H, T, r / 2): how long each pair is."""
        turned = x[..., : self.rotated].astype(np.float64)[..., by_pairs(self.config)(self.rotated)]
        lengths: Array = np.hypot(turned[..., 0::2], turned[..., 1::2])
        return lengths

    def paired(self, pairing: str) -> Self:
        """The same case with this pairing."""
        return self.but(options=written_options({**self.chosen, "rotary_pairing": pairing}))


def interleaving(rotated: int) -> Array:
    """(r): where each feature of interleaved pairs stands among halves: 0, r/2, 1, r/2 + 1 ..."""
    return np.arange(rotated).reshape(2, -1).T.reshape(-1)


def by_pairs(config: Config) -> Callable[[int], Array]:
    """The order in which the features of a pair stand side by side."""
    return np.arange if config.rotary_pairing == "interleaved" else interleaving


def fitting_width(width: int, fraction: float) -> int:
    """The smallest width from `width` on of which the fraction is an even number of features."""
    return next(n for n in range(width, width + 1000) if (n * fraction) % 2 == 0 and n * fraction >= 2)


@st.composite
def rotary_cases(
    draw: st.DrawFn,
    *,
    at: tuple[str, ...] = ("mixed", "block", "counted", "near", "far"),
    wants: str = "",
    kinds: tuple[str, ...] | None = None,
) -> RotaryCase:
    """Widths of pairs and of twice a prime; sizes that coincide and sizes that differ."""
    T = draw(st.sampled_from(LENGTHS))
    return RotaryCase(
        B=draw(st.sampled_from((1, 2, 3, T))),
        H=draw(st.sampled_from((1, 2, 3, T))),
        T=T,
        d=draw(st.sampled_from((8, 2, 4, 6, 10, 14, 22, 16))),
        at=draw(st.sampled_from(at)),
        pick=draw(picks()),
        wants=wants,
        regime=draw(regimes() if kinds is None else st.sampled_from(kinds)),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
