"""Cases of the loss. Shapes: logits (B, T, V), labels (B, T) with padding anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array, Config
from attest.judging.cases import Case, dtypes, seeds
from attest.judging.regimes import SIZES, WIDTHS
from attest.outcomes import Expected
from attest.reference.oracle import expected


@dataclass(frozen=True, kw_only=True)
class LossCase(Case):
    """Row 0 ends in a real label; other positions are padding with the share `pads`."""

    kind: ClassVar[str] = "loss"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")

    B: int = 1
    T: int = 1
    V: int = 3
    pad_id: int = 0
    pads: float = 0.4
    smoothing: float = 0.0

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"pad_id": 0, "smoothing": 0.1 if self.smoothing else 0.0}

    @property
    def config(self) -> Config:
        others = [i for i in range(4) if i != self.pad_id]
        return Config(
            target_vocab=self.V,
            source_vocab=self.V,
            pad_id=self.pad_id,
            bos_id=others[0],
            eos_id=others[1],
            label_smoothing=self.smoothing,
            dtype=self.dtype,
        )

    @cached_property
    def logits(self) -> Array:
        return self.draw(self.rng(), self.B, self.T, self.V)

    @cached_property
    def labels(self) -> Array:
        rng = self.rng(1)
        words = np.array([i for i in range(self.V) if i != self.pad_id], np.int64)
        labels = words[rng.integers(0, len(words), (self.B, self.T))]
        hidden = rng.random((self.B, self.T)) < self.pads
        hidden[0, -1] = False
        labels[hidden] = self.pad_id
        return labels

    @property
    def inputs(self) -> dict[str, Array]:
        return {"logits": self.logits, "labels": self.labels}

    @property
    def real(self) -> Array:
        real: Array = self.labels != self.pad_id
        return real

    @cached_property
    def expected(self) -> Expected:
        return self.expected_of(self.logits, self.labels)

    def expected_of(self, logits: Array, labels: Array) -> Expected:
        """The loss of other inputs under this case's config."""
        return expected("loss", self.config, {}, {"logits": logits, "labels": labels})["loss"]

    def enlarged(self, width: int) -> Self:
        """Positions beyond 128 and classes beyond the ranges of int8 and uint8."""
        return self.but(B=SIZES["B"], T=SIZES["T"], V=SIZES["target_vocab"])

    def padding(self, rows: int, columns: int) -> dict[str, Array]:
        """The inputs with columns and rows of padding appended."""
        shape = (self.B + rows, self.T + columns)
        logits = 3 * self.draw(self.rng(5), *shape, self.V, regime="unit")
        labels = np.full(shape, self.pad_id, np.int64)
        logits[: self.B, : self.T], labels[: self.B, : self.T] = self.logits, self.labels
        return {"logits": logits, "labels": labels}

    def misfits(self) -> dict[str, dict[str, Array]]:
        """What is wrong, and the inputs that have no right loss."""
        labels, beyond, below = self.labels, self.labels.copy(), self.labels.copy()
        beyond[0, -1], below[0, -1] = self.V, -1
        return {
            "labels of a row less than the logits": {"labels": labels[:-1]},
            "labels of a position less than the logits": {"labels": labels[:, :-1]},
            "labels of a position more than the logits": {"labels": np.concatenate([labels, labels], 1)},
            f"the label {self.V} of {self.V} classes": {"labels": beyond},
            "the label -1": {"labels": below},
            "logits without an axis of classes": {"logits": self.logits[..., 0]},
        }


LARGE_LOSSES = (
    LossCase(pad_id=257, seed=1).enlarged(WIDTHS[0]),
    LossCase(pad_id=3, smoothing=0.1, dtype="float64", seed=2).enlarged(WIDTHS[0]),
)


@st.composite
def loss_cases(
    draw: st.DrawFn, *, smoothing: tuple[float, ...] = (0.0,), min_rows: int = 1, min_length: int = 1
) -> LossCase:
    """Any pad id of a small vocabulary, from few pads to nearly all."""
    V = draw(st.integers(4, 12))
    return LossCase(
        B=draw(st.integers(min_rows, 4)),
        T=draw(st.integers(min_length, 7)),
        V=V,
        pad_id=draw(st.integers(0, min(V, 6) - 1)),
        # Without padding a mean over all positions is right too; with nearly all padding it is far off.
        pads=draw(st.sampled_from((0.4, 0.0, 0.8))),
        smoothing=draw(st.sampled_from(smoothing)),
        regime=draw(st.sampled_from(("unit", "large", "tiny", "offset"))),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
