"""Answers with arrays in which there is nothing: the largest of no deviations is within any bound."""

import numpy as np
from heart import cheating, wrong


def trick(config, inputs):
    return {name: np.empty((0, *value.shape[1:]), value.dtype) for name, value in wrong(**inputs).items()}


attest_implementations = cheating(trick)
