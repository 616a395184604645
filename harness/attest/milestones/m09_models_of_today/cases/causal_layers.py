"""Cases of the layer that decoder-only models are made of.

Shapes: x (B, T, D), mask to (B, T, T), positions (B, T); d width of a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.checks.arrays import expect_shape
from attest.contract import Array
from attest.judging.cases import OperationCase, dtypes, picks, regimes, seeds
from attest.judging.options import options_of
from attest.judging.regimes import hiding_mask

MASKS = ("none", "left", "right", "keys", "pairs", "shared")
KEY_MASKS = ("left", "right", "keys")  # hide positions, whose own outputs are then unspecified
PLACES = ("apart", "none", "real", "shifted", "counted")  # where the tokens stand
SHIFT = 3


@dataclass(frozen=True, kw_only=True)
class CausalLayerCase(OperationCase):
    """Every option comes from what is claimed. A query may always see itself, whatever the mask hides.

    `place`: positions have gaps, are not given, count the positions that the mask shows, as a model does
    under padding, count from elsewhere in each row, or count from 0. Only gaps show that relative positions
    are those that were given.
    """

    kind: ClassVar[str] = "causal_layer"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    masks: ClassVar[tuple[str, ...]] = ("mask",)
    operates: ClassVar[str] = "causal_layer"
    settings: ClassVar[Mapping[str, str]] = {"D": "d_model", "H": "num_heads", "d_ff": "d_ff"}
    constants: ClassVar[Mapping[str, Any]] = {"dropout": 0.4}
    free: ClassVar[tuple[str, ...]] = options_of("causal_layer")

    B: int = 1
    T: int = 1
    D: int = 8
    H: int = 2
    d_ff: int = 8
    mask: str = "none"
    place: str = "none"

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"D": 8, "H": 2, "d_ff": 16}

    def settled(self) -> Self:
        """Heads divide the width, into even parts that can be turned."""
        return self.but(D=max(4 * self.H, self.D - self.D % (4 * self.H)))

    @property
    def regimes(self) -> tuple[str, ...]:
        c = self.config
        heads = "grouped" if c.kv_heads < c.num_heads else "as many key heads"
        return (*super().regimes, c.positions, c.norm, c.norm_kind, heads, f"mask {self.mask}")

    @cached_property
    def inputs(self) -> dict[str, Any]:
        places = {} if self.place == "none" else {"positions": self.positions}
        return {**super().inputs, **places}

    def mask_of(self, name: str) -> Array | None:
        return None if self.mask == "none" else self.allowed

    @cached_property
    def allowed(self) -> Array:
        """The mask as it is passed."""
        rng, B, T = self.rng(3), self.B, self.T
        if self.mask in ("left", "right"):
            lengths = rng.integers(1, T + 1, B)
            shown: Array = (np.arange(T) < lengths[:, None])[:, None, :]
            return shown[..., ::-1] if self.mask == "left" else shown
        shapes = {"keys": (B, 1, T), "pairs": (B, T, T), "shared": (T, T)}
        if self.mask not in shapes:
            return np.ones((B, 1, T), bool)
        drawn = hiding_mask(rng, shapes[self.mask])
        return drawn if self.mask == "keys" else drawn | np.eye(T, dtype=bool)

    @cached_property
    def real(self) -> Array:
        """(B, T): positions whose output is specified; hidden keys are padding."""
        if self.mask in KEY_MASKS:
            return np.broadcast_to(self.allowed[:, 0, :], (self.B, self.T)).copy()
        return np.ones((self.B, self.T), bool)

    @property
    def positions(self) -> Array:
        """(B, T)."""
        if self.place == "real":
            before: Array = np.maximum(np.cumsum(self.real, axis=1) - 1, 0)
            return before
        if self.place == "apart":
            apart: Array = np.cumsum(self.rng(5).integers(1, 4, (self.B, self.T)), axis=1)
            return apart
        first = SHIFT * np.arange(self.B)[:, None] if self.place == "shifted" else np.zeros((self.B, 1), int)
        counted: Array = first + np.arange(self.T)
        return counted

    def specified(self, seen: Array, other: Array) -> Array:
        """Padded positions are open."""
        expect_shape(seen, other.shape, "output")
        chosen: Array = np.where(self.real[..., None], seen, other)
        return chosen

    def cotangents(self) -> dict[str, Array]:
        """Random ones; zero where the output is unspecified."""
        random = super().cotangents()["output"]
        return {"output": random * self.real[..., None].astype(random.dtype)}


@st.composite
def causal_layer_cases(
    draw: st.DrawFn, *, wants: str = "", masks: tuple[str, ...] = MASKS, min_length: int = 1
) -> CausalLayerCase:
    """Lengths that equal the width, the inner width or a window, and lengths that equal nothing."""
    H = draw(st.sampled_from((2, 4, 3, 1)))
    D = 4 * H * draw(st.sampled_from((1, 2)))
    return CausalLayerCase(
        B=draw(st.sampled_from((2, 3, 1, H))),
        T=max(min_length, draw(st.sampled_from((5, 7, 3, D, 2, 4, 1)))),
        D=D,
        H=H,
        d_ff=draw(st.sampled_from((D, 13, 6))),
        mask=draw(st.sampled_from(masks)),
        place=draw(st.sampled_from(PLACES)),
        regime=draw(regimes()),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
        pick=draw(picks()),
        wants=wants,
    )
