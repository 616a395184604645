"""Answers so large that an error and its share of a bound are no numbers any more."""

import numpy as np
from heart import cheating, wrong


def trick(config, inputs):
    found = wrong(**inputs)
    largest = np.finfo(found["output"].dtype).max
    return found | {"output": np.where(np.arange(found["output"].shape[-1]) % 2, largest, -largest)
                    .astype(found["output"].dtype) * np.ones_like(found["output"])}  # fmt: skip


attest_implementations = cheating(trick)
