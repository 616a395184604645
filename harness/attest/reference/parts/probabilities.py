"""Softmax and cross-entropy by themselves.

Shapes: B batch, T positions, S entries, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attest.reference import ops
from attest.reference.parts.part import Inputs, Outputs, Part, formula
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Softmax(Part):
    """exp(x) over its sum along the last axis, with the largest entry taken out first."""

    def __call__(self, x: Var) -> Var:
        return ops.softmax(x)


class CrossEntropy(Part):
    """The mean over all positions of -log p(label)."""

    def log_probabilities(self, logits: Var) -> Var:
        """(B, T, V)."""
        return ops.log_softmax(logits)

    def losses(self, logits: Var, labels: Array) -> Var:
        """(B, T)."""
        chosen = labels[..., None] == np.arange(logits.shape[-1])
        return ops.scale(ops.sum_last(ops.where(chosen, self.log_probabilities(logits), 0.0)), -1.0)

    def __call__(self, logits: Var, labels: Array) -> Var:
        return ops.mean(self.losses(logits, labels))


@formula("softmax")
def _softmax(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"output": parts.softmax(inputs["x"])}


@formula("cross_entropy")
def _cross_entropy(parts: Parts, p: Scope, inputs: Inputs) -> Outputs:
    return {"loss": parts.cross_entropy(inputs["logits"], inputs["labels"])}
