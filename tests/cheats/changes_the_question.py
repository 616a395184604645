"""Puts another question in the place of the one that was asked: one to which its answer is right."""

import numpy as np
from heart import cheating, wrong


def trick(config, inputs):
    found = wrong(**inputs)
    inputs["q"] *= np.sqrt(inputs["q"].shape[-1]).astype(inputs["q"].dtype)
    return found


attest_implementations = cheating(trick)
