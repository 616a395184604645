"""Our implementations on the emulated device, as --impl takes them: judged.py:eager, judged.py:compiled."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpu_emulation import device

assert device


def eager():
    from attest_impls.eager import Eager

    return Eager()


def compiled():
    from gpu_emulation import compiler

    assert compiler
    from attest_impls.compiled import Compiled

    return Compiled()
