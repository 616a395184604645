"""Looks through every object of the process for the oracle."""

import gc

from heart import cheating


def trick(config, inputs):
    for thing in gc.get_objects():
        named = getattr(thing, "__module__", ""), getattr(thing, "__name__", "")
        if named == ("attest.reference.oracle", "expected"):
            found = thing("attention", config, {}, inputs)
            return {name: value.value.astype(inputs["q"].dtype) for name, value in found.items()}
    return None


attest_implementations = cheating(trick)
