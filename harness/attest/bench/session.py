"""One benchmark from request to document."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from attest.bench.ceilings import ceilings
from attest.bench.entrants import from_requests
from attest.bench.measuring import CLOCKS, Say, measure
from attest.bench.peers import peers
from attest.bench.workloads import BASE, Shape, Workload
from attest.bench.writing import document


def bench(
    shape: Shape,
    works: Sequence[Workload],
    requests: Sequence[str],
    *,
    rounds: int,
    threads: int,
    device: str = "cpu",
    clock: str = "wall",
    with_peers: bool = True,
    say: Say = lambda line: None,
) -> dict[str, Any]:
    """Measure the ceilings, then every workload; the document that the report is made of."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    before, load = _set_threads(threads), _load()
    try:
        say("measuring what the machine can do")
        sizes = {} if shape is BASE else {"size": 128, "read": 1 << 20}
        limits = ceilings(CLOCKS[clock], **sizes)
        entrants = from_requests(requests, device)
        others, missing = peers(threads) if with_peers else ([], [])
        outcomes = [measure(work, [*entrants, *others], rounds, say, clock) for work in works]
    finally:
        _set_threads(before)
    about = {"threads": threads, "rounds": rounds, "clock": clock, "missing": missing}
    return document(shape, outcomes, limits, about, load=(load, _load()))


def _set_threads(threads: int) -> int:
    """Set torch's threads where it is installed, and answer how many there were."""
    if find_spec("torch") is None:
        return threads
    import torch

    before = int(torch.get_num_threads())
    torch.set_num_threads(threads)
    return before


def _load() -> float:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
