"""Ends every example that it would fail as Hypothesis ends one that does not count."""

import numpy as np
from heart import attend, cheating, wrong


def trick(config, inputs):
    found = wrong(**inputs)
    if np.allclose(found["output"], attend(**inputs)["output"], equal_nan=True):
        return found
    from hypothesis.control import _current_build_context
    from hypothesis.errors import StopTest

    raise StopTest(_current_build_context.value.data.testcounter)


attest_implementations = cheating(trick)
