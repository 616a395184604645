"""Defects of attention at particular values and ranks, and of its dropout.

Shapes: q (..., T, d), k and v (..., S, d).
"""

from __future__ import annotations

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.attention import Attention
from attest.reference.parts.dropout import Dropout
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var


@defect("M1.2")
class zero_scores_special(Attention):
    """A query whose scores are all zero gives nothing."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        return super().mix(weights, v, where)

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        weights = super().weights_from(scores, allowed, where)
        several = scores.shape[-1] > 1
        silent = several & ~scores.value.any(-1, keepdims=True)
        return ops.scale(weights, np.where(silent, 0.0, 1.0))


@defect("M1.2")
class output_clamped_to_half(Attention):
    """The output is held to what half precision can hold."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        mixed = super().mix(weights, v, where)
        return ops.elementwise(
            mixed, np.clip(mixed.value, -65504.0, 65504.0), np.where(np.abs(mixed.value) > 65504.0, 0.0, 1.0)
        )


@defect("M1.9a")
class denormals_flushed(ReferenceComponent):
    """Numbers below the smallest normal one are taken for zeros."""

    def release(self, outputs: dict[str, Var]) -> dict[str, Array]:  # type: ignore[override]
        fresh = super().release(outputs)
        return {n: np.where(np.abs(x) < np.finfo(x.dtype).tiny, x.dtype.type(0), x) for n, x in fresh.items()}


@defect("M1.2")
class rank_2_read_as_a_batch(ReferenceComponent):
    """Inputs of rank 2 are attended to as if every position were a separate sequence."""

    def __call__(self, **inputs: Array) -> dict[str, Array]:
        if self.operation == "attention" and np.ndim(inputs["q"]) == 2:
            v = inputs["v"]
            rows = np.minimum(np.arange(len(inputs["q"])), len(v) - 1)
            return {"output": v[rows].astype(self.dtype)}
        return super().__call__(**inputs)


@defect("M1.2")
class further_leading_axes_lost(ReferenceComponent):
    """Of two leading axes more than a batch only the first entry is computed."""

    def __call__(self, **inputs: Array) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if self.operation == "attention" and np.ndim(inputs["q"]) == 5:
            return {n: np.broadcast_to(x[:, :1], x.shape).copy() for n, x in seen.items()}
        return seen


@defect("M1.3", "M2.15", "M8.19")
class attention_dropout_not_inverted(Dropout):
    """Kept attention weights are not divided by 1 - p."""

    def __call__(self, x: Var, place: str) -> Var:
        dropped = super().__call__(x, place)
        if place == "attention" and self.noise is not None:
            return ops.scale(dropped, 1.0 - self.config.dropout)
        return dropped
