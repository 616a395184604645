"""Answers with records of fields, whose comparisons are numpy's own affair."""

import numpy as np
from heart import cheating, wrong


def trick(config, inputs):
    found = wrong(**inputs)["output"]
    records = np.zeros(found.shape, [("value", found.dtype), ("rest", "V4")])
    records["value"] = found
    return {"output": records}


attest_implementations = cheating(trick)
