"""M8: attention in blocks does not hold all scores at once."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect
from attest.evidence import note_case
from attest.judging.property import verifies
from attest.milestones.m08_attention_variants.cases.chunked import ChunkedCase
from attest.outcomes import NotRun

T, S = 128, 4096
BLOCKS = (64, 256, 1024)


def peak(component: JudgedComponent, case: ChunkedCase) -> int:
    """The most bytes that a call holds at a time beyond what was there: of numpy, and of torch if loaded."""
    inputs = case.inputs
    component(**inputs)

    def call() -> object:
        return component.component(**inputs)

    return numpy_peak(call) + (of_torch(call) if "torch" in sys.modules else 0)


def numpy_peak(call: Callable[[], object]) -> int:
    """As tracemalloc counts, which numpy tells of every array."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def of_torch(call: Callable[[], object]) -> int:
    """As torch's profiler counts. Imported here: judging a numpy implementation does not load torch."""
    from attest.adapters.memory import torch_peak

    return torch_peak(call)


@verifies("M8.9")
def blocks_of_keys_save_memory(impl: JudgedImplementation) -> None:
    """At S = 4096 the peak of a call grows with the block, at most in proportion, and not with all keys."""
    cases = [ChunkedCase(T=T, S=S, d_k=4, d_v=4, chunk=c, dtype=impl.dtypes[0]).fitted(impl) for c in BLOCKS]
    peaks = [peak(case.loaded(impl), case) for case in cases]
    note_case(f"peaks of {peaks} bytes in blocks of {BLOCKS} keys", "memory")
    largest = T * BLOCKS[-1] * np.dtype(np.float32).itemsize
    if peaks[-1] < largest:  # the scores of one block would be seen
        raise NotRun(
            "neither tracemalloc nor torch's profiler sees the scores that this implementation allocates"
        )
    for block, seen in zip(BLOCKS[1:], peaks[1:]):
        allowed = 1.5 * peaks[0] * block / BLOCKS[0]
        expect(seen <= allowed, f"{seen:,} bytes in blocks of {block} keys, should be at most {allowed:,.0f}")
    scores = T * S * np.dtype(np.float32).itemsize
    expect(peaks[0] <= scores / 2, f"{peaks[0]:,} bytes in blocks of {BLOCKS[0]}, all scores are {scores:,}")
