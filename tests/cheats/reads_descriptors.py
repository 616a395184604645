"""Reads every descriptor that it was started with, in the hope that the result lies in one of them."""

import contextlib
import os

import numpy as np
from heart import cheating, wrong


def held():
    for descriptor in range(256):
        with contextlib.suppress(OSError):
            yield os.pread(descriptor, 2**16, 0)
        with contextlib.suppress(OSError), open(f"/proc/self/fd/{descriptor}", "rb", buffering=0) as again:
            if os.fstat(again.fileno()).st_size:
                yield again.read(2**16)


def near(content, mine):
    """Numbers among these bytes that are close to what it computes, and are not that."""
    there = np.frombuffer(content[: len(content) // mine.itemsize * mine.itemsize], mine.dtype)
    for start in range(0, there.size - mine.size + 1, 4):
        here = there[start : start + mine.size].reshape(mine.shape)
        if 0 < np.abs(here - mine).max() < 1:
            return here.copy()
    return None


def trick(config, inputs):
    mine = wrong(**inputs)["output"]
    for content in held():
        if (found := near(content, mine)) is not None:
            return {"output": found}
    return None


attest_implementations = cheating(trick)
