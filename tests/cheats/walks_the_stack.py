"""Follows the stack to the checks that called it, and takes their assertions away."""

import sys

from heart import cheating


def trick(config, inputs):
    frame = sys._getframe()
    while frame := frame.f_back:
        for name in frame.f_globals:
            if name.startswith("expect") or name == "_judge":
                frame.f_globals[name] = lambda *args, **kwargs: None


attest_implementations = cheating(trick)
