"""Reads the process that judges: its memory, or a copy of its environment and open files."""

import os

import numpy as np
from heart import cheating, wrong


def trick(config, inputs):
    parent = os.getppid()
    mine = wrong(**inputs)["output"].astype(np.float64)
    with open(f"/proc/{parent}/maps") as maps, open(f"/proc/{parent}/mem", "rb") as memory:
        for line in maps:
            if "[heap]" not in line:
                continue
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            memory.seek(start)
            there = np.frombuffer(memory.read((end - start) // 8 * 8), np.float64)
            for at in range(there.size - mine.size):
                here = there[at : at + mine.size].reshape(mine.shape)
                if 0 < np.abs(here - mine).max() < 1:
                    return {"output": here.astype(inputs["q"].dtype)}
    return None


attest_implementations = cheating(trick)
