"""What the machine can do at best: a large product, and reading memory."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

SIZE = 1024
READ = 1 << 26  # floats: 256 MB, beyond any cache
ROUNDS = 7


def ceilings(clock: Callable[[], float], *, size: int = SIZE, read: int = READ) -> dict[str, float]:
    """matmul in GFLOP/s and bandwidth in GB/s, float32, the best of several."""
    with_torch = find_spec("torch") is not None
    product, reading = _torch_calls(size, read) if with_torch else _numpy_calls(size, read)
    return {
        "matmul_gflops": round(2 * size**3 / _best(product, clock) / 1e9, 1),
        "bandwidth_gbs": round(4 * read / _best(reading, clock) / 1e9, 1),
    }


def _torch_calls(size: int, read: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch

    a, long = torch.ones(size, size), torch.ones(read)
    return lambda: a @ a, lambda: long.sum()


def _numpy_calls(size: int, read: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    a, long = np.ones((size, size), np.float32), np.ones(read, np.float32)
    return lambda: a @ a, lambda: long.sum()


def _best(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    taken = []
    for _ in range(ROUNDS):
        started = clock()
        call()
        taken.append(clock() - started)
    return min(taken)
