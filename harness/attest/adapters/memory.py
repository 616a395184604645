"""How much of torch's memory a call holds at a time. Only where torch is loaded already: see `torch_peak`."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

ALLOCATION = "[memory]"  # what the profiler calls an event of the allocator; given back is negative


def torch_peak(call: Callable[[], object]) -> int:
    """The most bytes that torch's allocator on the CPU gave out at a time during the call.

    The profiler counts in the allocator, so it sees what fused kernels take for themselves, which counting
    the results of single operations would miss.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # torch's profiler announces itself otherwise
    held = most = 0
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = profiler.profiler.kineto_results.events()
    for event in sorted((e for e in events if e.name() == ALLOCATION), key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return int(most)
