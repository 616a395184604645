"""Defects of scaled dot-product attention. Shapes: q (..., T, d), k and v (..., S, d)."""

from __future__ import annotations

from attest.mutants.catalogue import defect
from attest.reference import ops
from attest.reference.formulas import Formulas
from attest.reference.tape import Array, Var


@defect("M1.2", "M1.8", "M1.10")
class no_scale(Formulas):
    """Scores are not divided by sqrt(d_k)."""

    def scale(self, scores: Var, q: Var, k: Var) -> Var:
        return scores


@defect("M1.2", "M1.10")
class scale_by_dk(Formulas):
    """Scores are divided by d_k instead of its square root."""

    def scale(self, scores: Var, q: Var, k: Var) -> Var:
        return ops.scale(scores, 1.0 / q.shape[-1])


@defect("M1.4")
class polarity_flipped(Formulas):
    """True is taken to mean hidden."""

    def combine_masks(self, mask: Array | None, causal: Array | None) -> Array | None:
        return super().combine_masks(None if mask is None else ~mask, causal)
