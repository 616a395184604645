"""Cases of the loss of a language model. Shapes: logits (B, T, V), ids (B, T)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array, Config
from attest.judging.cases import OperationCase, dtypes, seeds


@dataclass(frozen=True, kw_only=True)
class TextLossCase(OperationCase):
    """Row 0 ends in a real token; other places are padding with the share `pads`, wherever they stand."""

    kind: ClassVar[str] = "language_model_loss"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    operates: ClassVar[str] = "language_model_loss"
    settings: ClassVar[Mapping[str, str]] = {"smoothing": "label_smoothing", "pad_id": "pad_id"}
    stands_for: ClassVar[Mapping[str, str]] = {"V": "target_vocab"}

    B: int = 1
    T: int = 2
    V: int = 5
    pad_id: int = 0
    pads: float = 0.3
    smoothing: float = 0.0

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"pad_id": 0, "smoothing": 0.1 if self.smoothing else 0.0}

    @property
    def config(self) -> Config:
        others = [i for i in range(4) if i != self.pad_id]
        ids = {"bos_id": others[0], "eos_id": others[1], "source_vocab": self.V, "target_vocab": self.V}
        return super().config.but(**ids)

    @cached_property
    def ids(self) -> Array:
        """(B, T)."""
        rng = self.rng(1)
        words = np.array([i for i in range(self.V) if i != self.pad_id], np.int64)
        ids: Array = words[rng.integers(0, len(words), (self.B, self.T))]
        hidden = rng.random((self.B, self.T)) < self.pads
        hidden[0, -1] = False
        ids[hidden] = self.pad_id
        return ids

    @cached_property
    def inputs(self) -> dict[str, Any]:
        return {**super().inputs, "ids": self.ids}

    @property
    def asked(self) -> Array:
        """(B, T): where a real token follows; nothing follows the last one."""
        following = np.zeros((self.B, self.T), bool)
        following[:, :-1] = self.ids[:, 1:] != self.pad_id
        return following

    def cotangents(self) -> dict[str, Array]:
        return {"loss": np.asarray(1.0, self.inputs["logits"].dtype)}


@st.composite
def text_loss_cases(
    draw: st.DrawFn, *, smoothing: tuple[float, ...] = (0.0, 0.1), min_rows: int = 1
) -> TextLossCase:
    """V equal to T or B as often as not: what is flattened wrongly then still has the right shape."""
    T = draw(st.sampled_from((4, 2, 3, 5, 7)))
    V = draw(st.sampled_from((max(T, 4), 5, 9)))
    return TextLossCase(
        B=max(min_rows, draw(st.sampled_from((2, 3, 1, T)))),
        T=T,
        V=V,
        pad_id=draw(st.integers(0, 3)),
        pads=draw(st.sampled_from((0.3, 0.0, 0.7))),
        smoothing=draw(st.sampled_from(smoothing)),
        regime=draw(st.sampled_from(("unit", "large", "tiny", "offset"))),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
