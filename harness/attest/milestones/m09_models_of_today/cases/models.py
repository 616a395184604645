"""What cases of whole models have in common, whether they have one stack or two.

Shapes: logits (B, T, V).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from attest.checks.arrays import expect_shape
from attest.contract import Array
from attest.judging.cases import OperationCase
from attest.judging.regimes import LENGTH

WHISPER = 1e-3  # its square is as large as the eps that libraries have where nothing is said


@dataclass(frozen=True, kw_only=True)
class ModelCase(OperationCase):
    """Random weights and ids; what a model says where `real` is False is open."""

    B: int = 1
    T: int = 1
    D: int = 8
    H: int = 2
    d_ff: int = 8
    N: int = 1
    V: int = 9
    room: int = 32

    @property
    def narrowed(self) -> dict[str, Any]:
        sizes = {"D": 8, "H": 2, "d_ff": 16, "N": 2, "V": 9, "room": type(self).room}
        return {**sizes, "T": min(self.T, 8)}

    def enlarged(self, width: int) -> Self:
        """One layer of the large sizes: what six of them do is asked once, of a case that is named."""
        return super().enlarged(width).but(N=1, room=LENGTH)

    @property
    def real(self) -> Array:
        """(B, T): where a token is no padding."""
        raise NotImplementedError

    def whispering(self) -> dict[str, Array]:
        """The parameters with what norms read made small: tables, what sublayers add, gains behind a sum."""
        quiet: tuple[str, ...] = ("embedding", ".output.", ".outer.", "head.dense.bias")
        if self.config.norm == "post":
            quiet = (*quiet, ".norm0.", ".norm1.")
        return {
            name: (x * WHISPER).astype(x.dtype) if any(part in name for part in quiet) else x
            for name, x in self.parameters.items()
        }

    def specified(self, seen: Array, other: Array) -> Array:
        """What the model says under padding is open."""
        expect_shape(seen, other.shape, "logits")
        chosen: Array = np.where(self.real[..., None], seen, other)
        return chosen

    def cotangents(self) -> dict[str, Array]:
        """Random ones; zero under padding."""
        random = super().cotangents()["logits"]
        return {"logits": random * self.real[..., None].astype(random.dtype)}
