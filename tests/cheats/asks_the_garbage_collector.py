"""Looks through every object of the process for the case with these inputs."""

import gc

import numpy as np
from heart import cheating


def trick(config, inputs):
    for thing in gc.get_objects():
        if type(thing).__name__ == "AttentionCase" and np.array_equal(thing.inputs["q"], inputs["q"]):
            return {name: value.value.astype(inputs["q"].dtype) for name, value in thing.expected.items()}
    return None


attest_implementations = cheating(trick)
