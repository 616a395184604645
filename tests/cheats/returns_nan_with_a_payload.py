"""Answers with nan, which compares as neither too large nor too small, and hides a number in its bits."""

import numpy as np
from heart import cheating, wrong


def trick(config, inputs):
    found = wrong(**inputs)
    output = found["output"]
    bits = output.view(np.uint32 if output.itemsize == 4 else np.uint64)
    bits |= np.array(np.nan, output.dtype).view(bits.dtype)
    return {**found, "output": output}


attest_implementations = cheating(trick)
