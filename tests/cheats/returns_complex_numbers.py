"""Answers with complex numbers: a cast leaves the real part, a comparison may see neither."""

import numpy as np
from heart import cheating, wrong


def trick(config, inputs):
    return {name: value + 1j * np.float32("inf") for name, value in wrong(**inputs).items()}


attest_implementations = cheating(trick)
