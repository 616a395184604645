"""Looks for an array like the result in all memory that the process shares with another one."""

import mmap
import re

import numpy as np
from heart import cheating, wrong


def shared():
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
        for line in maps:
            found = re.match(r"(\w+)-\w+ r\S*s .*memfd:", line)
            if found:
                memory.seek(int(found[1], 16))
                yield memory.read(64 * mmap.PAGESIZE)


def trick(config, inputs):
    """Whatever is near to what it computes and is not that."""
    mine = wrong(**inputs)["output"]
    for held in shared():
        there = np.frombuffer(held, mine.dtype)
        for start in range(0, there.size - mine.size, 16):
            here = there[start : start + mine.size].reshape(mine.shape)
            if 0 < np.abs(here - mine).max() < 1:
                return {"output": here.copy()}
    return None


attest_implementations = cheating(trick)
