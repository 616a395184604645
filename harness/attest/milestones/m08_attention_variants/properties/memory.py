"""M8: attention in blocks does not hold all scores at once."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect
from attest.evidence import note_case
from attest.judging.property import verifies
from attest.milestones.m08_attention_variants.cases.chunked import ChunkedCase
from attest.outcomes import NotClaimed

T, S = 128, 4096
BLOCKS = (64, 256, 1024)


def peak(component: JudgedComponent, case: ChunkedCase) -> int:
    """The most bytes that a call holds at a time beyond what was there, as tracemalloc counts them."""
    inputs = case.inputs
    component(**inputs)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        component.component(**inputs)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@verifies("M8.9")
def blocks_of_keys_save_memory(impl: JudgedImplementation) -> None:
    """At S = 4096 the peak of a call grows with the block, at most in proportion, and not with all keys."""
    cases = [ChunkedCase(T=T, S=S, d_k=4, d_v=4, chunk=c, dtype=impl.dtypes[0]).fitted(impl) for c in BLOCKS]
    peaks = [peak(case.loaded(impl), case) for case in cases]
    note_case(f"peaks of {peaks} bytes in blocks of {BLOCKS} keys", "memory")
    largest = T * BLOCKS[-1] * np.dtype(np.float32).itemsize
    if peaks[-1] < largest:  # the scores of one block would be seen
        raise NotClaimed("tracemalloc does not see the scores that this implementation allocates")
    for block, seen in zip(BLOCKS[1:], peaks[1:]):
        allowed = 1.5 * peaks[0] * block / BLOCKS[0]
        expect(seen <= allowed, f"{seen:,} bytes in blocks of {block} keys, should be at most {allowed:,.0f}")
    scores = T * S * np.dtype(np.float32).itemsize
    expect(peaks[0] <= scores / 2, f"{peaks[0]:,} bytes in blocks of {BLOCKS[0]}, all scores are {scores:,}")
