"""Takes the expected value out of the check that is about to compare."""

import sys

from heart import cheating


def trick(config, inputs):
    frame = sys._getframe()
    while frame := frame.f_back:
        case = frame.f_locals.get("case")
        if hasattr(case, "expected"):
            return {name: value.value.astype(inputs["q"].dtype) for name, value in case.expected.items()}
    return None


attest_implementations = cheating(trick)
