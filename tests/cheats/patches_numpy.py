"""Makes every distance zero."""

import numpy as np
from heart import cheating

plain = np.abs
np.abs = lambda x, *args, **kwargs: np.zeros_like(plain(x, *args, **kwargs))
attest_implementations = cheating(lambda config, inputs: None)
