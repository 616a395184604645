"""One benchmark from request to document."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from attest.bench.ceilings import ceilings
from attest.bench.entrants import CLOCKS
from attest.bench.measuring import Say, measure
from attest.bench.processes import Field, separate_processes, set_threads
from attest.bench.shapes import BASE, Shape
from attest.bench.workloads import Workload
from attest.bench.writing import document
from attest.reference.memory import remember_answers


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
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # torch's profiler announces itself otherwise
    before, load = set_threads(threads), _load()
    try:
        say("measuring what the machine can do")
        sizes = {} if shape is BASE else {"size": 128, "read": 1 << 20}
        limits = ceilings(CLOCKS[clock], **sizes)
    finally:
        set_threads(before)
    remember_answers(len(works))  # all who complete a prompt alike are checked at the cost of one
    with separate_processes(Field(tuple(requests), device, threads, with_peers)) as (entrants, missing):
        outcomes = [measure(work, entrants, rounds, say, clock) for work in works]
    remember_answers(0)
    about = {"threads": threads, "rounds": rounds, "clock": clock, "missing": missing}
    return document(shape, outcomes, limits, about, load=(load, _load()))


def _load() -> float:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
