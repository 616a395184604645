"""Right where the values are zeros and ones, by which the weights are read off."""

import numpy as np
from heart import attend, cheating

attest_implementations = cheating(
    lambda config, inputs: attend(**inputs) if np.isin(inputs["v"], (0, 1)).all() else None
)
