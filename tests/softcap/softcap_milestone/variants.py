"""Correct soft capping in unusual clothes."""

import numpy as np

from attest.judging.catalogue import variant
from softcap_milestone.defects import Otherwise
from softcap_milestone.operation import CAP


@variant("M20")
class by_the_logistic_function(Otherwise):
    """tanh(y) is 2 / (1 + exp(-2y)) - 1."""

    def capped(self, x):
        return CAP * (2 / (1 + np.exp(-2 * x / CAP)) - 1)
