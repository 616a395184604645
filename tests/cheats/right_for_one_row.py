"""Right where nothing is beside it: one row and one head, as the smallest cases have them."""

import math

from heart import attend, cheating

attest_implementations = cheating(
    lambda config, inputs: attend(**inputs) if math.prod(inputs["q"].shape[:-2]) == 1 else None
)
