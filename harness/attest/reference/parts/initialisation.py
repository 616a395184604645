"""How weights begin, so that signals keep their size from layer to layer.

Shapes: a weight is (O, I), for O outputs and I inputs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from attest.reference.parts.part import Part, function
from attest.reference.tape import Array
from attest.reference.validation import check_size

if TYPE_CHECKING:
    from attest.reference.assembly import Parts


class Initialisation(Part):
    """Xavier: https://proceedings.mlr.press/v9/glorot10a.html, 16. He: https://arxiv.org/abs/1502.01852."""

    def rng(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def xavier_limit(self, outputs: int, inputs: int) -> float:
        """Of a uniform distribution with variance 2 / (inputs + outputs)."""
        return math.sqrt(6.0 / (inputs + outputs))

    def he_deviation(self, outputs: int, inputs: int) -> float:
        """ReLU halves the mean square of what passes it; a variance of 2 / inputs makes up for that."""
        return math.sqrt(2.0 / inputs)

    def xavier(self, outputs: int, inputs: int, seed: int) -> Array:
        limit = self.xavier_limit(outputs, inputs)
        return self.rng(seed).uniform(-limit, limit, (outputs, inputs))

    def he(self, outputs: int, inputs: int, seed: int) -> Array:
        return self.rng(seed).normal(0.0, self.he_deviation(outputs, inputs), (outputs, inputs))


@function("xavier")
def _xavier(parts: Parts, outputs: int, inputs: int, seed: int) -> Array:
    _check(outputs, inputs)
    return parts.initialisation.xavier(outputs, inputs, seed)


@function("he")
def _he(parts: Parts, outputs: int, inputs: int, seed: int) -> Array:
    _check(outputs, inputs)
    return parts.initialisation.he(outputs, inputs, seed)


def _check(outputs: int, inputs: int) -> None:
    check_size("outputs", outputs)
    check_size("inputs", inputs)
