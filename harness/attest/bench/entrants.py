"""What a benchmark measures: implementations from the registry, called through the contract.

For one workload an entrant makes a function without arguments that does the work once and returns how many
tokens it handled. The number is checked, so that no entrant is fast by stopping early. Entrants that share a
process slow each other down by their threads, so `bench.processes` starts one process for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from attest.bench.shapes import parameters
from attest.bench.workloads import Workload
from attest.boundary import JudgedImplementation, quiet
from attest.contract import Array, Config
from attest.evidence import collecting
from attest.outcomes import NotOffered, Violation
from attest.registry import load, parse_request

# One run answers how many tokens it handled, or for a completion which tokens it wrote (B, n).
Run = Callable[[], int | Array]

GENERATED = "code that inductor wrote"
EVERY = 10  # of the lengths of a prefix one in so many is timed: the cost is linear in it


# The processor's own time leaves out what neighbours take: for one thread on a machine that is not idle.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass
class Entrant:
    """One row of the benchmark: an implementation or a peer. `prepare` raises NotOffered with the reason."""

    name: str
    prepare: Callable[[Workload], Run]
    every: int = 1  # one part in `every` of the work is done, and the seconds are multiplied by it
    peer: bool = False
    dtype: str = "float32"
    _run: Run = field(default=lambda: 0, init=False, repr=False)

    def warm(self, work: Workload) -> Array | None:
        """Run the workload once, so that compiling is not timed; the tokens that a completion wrote.

        Who does too little is refused.
        """
        with quiet(), collecting():
            try:
                self._run = self.prepare(work)
                done = self._run()
            except Violation as violation:
                raise NotOffered(str(violation)) from None
        if isinstance(done, int):
            if done != work.units:
                raise NotOffered(f"{done} tokens instead of {work.units}")
            return None
        if done.shape != (work.B, work.tokens):
            raise NotOffered(f"tokens of shape {done.shape} instead of {(work.B, work.tokens)}")
        return done

    def seconds(self, clock: str) -> float:
        """The seconds of one run of the workload."""
        now = CLOCKS[clock]
        with quiet():
            started = now()
            self._run()
            return self.every * (now() - started)

    def profile(self, most: int) -> list[tuple[str, float]]:
        """Where one more run spends its time, by torch's profiler: operations and shares of the processor."""
        if find_spec("torch") is None:
            return []
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as profiling

        with quiet(), profiling(activities=[ProfilerActivity.CPU]) as seen:
            self._run()
        spent: dict[str, float] = {}
        for event in seen.key_averages():
            name = GENERATED if event.key.startswith("## Call Compiled") else event.key
            spent[name] = spent.get(name, 0.0) + event.self_cpu_time_total
        total = sum(spent.values()) or 1.0
        ranked = sorted(spent.items(), key=lambda pair: -pair[1])[:most]
        return [(name, time / total) for name, time in ranked]


def from_requests(requests: Iterable[str], device: str) -> list[Entrant]:
    """Each implementation, and the loop without a cache for those that are not compiled."""
    entrants = []
    for text in requests:
        request = parse_request(text)
        options = dict(request.options)
        for found in load(request):
            impl = JudgedImplementation(
                found, dtype=options.get("dtype"), device=options.get("device", device)
            )
            label = ",".join([impl.name, *(f"{k}={v}" for k, v in request.options)])
            dtype = str(options.get("dtype", "float32"))
            entrants.append(Entrant(label, _preparing(impl), dtype=dtype))
            if not impl.compiled and impl.offers("transformer"):
                entrants.append(Entrant(f"{label} re-running", _rerunning(impl), every=EVERY))
    return entrants


def _preparing(impl: JudgedImplementation) -> Callable[[Workload], Run]:
    kinds = {
        "train": _train,
        "encode": _encode,
        "greedy": _generate,
        "beam": _generate,
        "complete": _complete,
    }
    return lambda work: kinds[work.kind](impl, work)


def _config(impl: JudgedImplementation, work: Workload) -> Config:
    dtype = "float32" if "float32" in impl.dtypes else impl.dtypes[0]
    return impl.with_run_options(work.shape.config.but(dtype=dtype))


def _built(impl: JudgedImplementation, operation: str, work: Workload) -> Any:
    """The bare component with the workload's weights: the boundary's copies are not what is timed."""
    component = impl.construct(operation, _config(impl, work))
    with quiet():
        component.load(parameters(work.shape))
    return component


def _train(impl: JudgedImplementation, work: Workload) -> Run:
    trainer = impl.construct("trainer", _config(impl, work))

    def run() -> int:
        trainer.step(work.batch)
        return work.units

    return run


def _encode(impl: JudgedImplementation, work: Workload) -> Run:
    model = _built(impl, "transformer", work)
    if not callable(getattr(model, "encode", None)):
        raise NotOffered("transformer has no encode()")
    return lambda: int(np.prod(model.encode(source=work.given)["memory"].shape[:2]))


def _generate(impl: JudgedImplementation, work: Workload) -> Run:
    generate = _built(impl, "generate", work)
    request = {"max_len": work.tokens, "method": work.kind, "width": work.width}
    return lambda: int(np.prod(generate(source=work.given, **request)["tokens"].shape))


def _complete(impl: JudgedImplementation, work: Workload) -> Run:
    complete = _built(impl, "complete", work)
    request = {"max_len": work.tokens, "method": "greedy"}
    return lambda: np.asarray(complete(prompt=work.given, **request)["tokens"])[:, 0]


def _rerunning(impl: JudgedImplementation) -> Callable[[Workload], Run]:
    """Encoder and decoder on the whole prefix, once per token; one in EVERY lengths, from the middle."""

    def prepare(work: Workload) -> Run:
        if work.name not in ("greedy_1", "greedy_16"):
            raise NotOffered("only the short greedy runs are repeated without a cache")
        model = _built(impl, "transformer", work)
        prefix = work.ids(work.tokens, seed=2)
        return lambda: sum(_next(model, work, prefix[:, :n]) for n in lengths(work.tokens))

    return prepare


def lengths(tokens: int) -> range:
    return range(EVERY // 2, tokens + 1, EVERY)


def _next(model: Any, work: Workload, prefix: Array) -> int:
    logits = model(source=work.given, target=prefix)["logits"]
    return EVERY * int(logits[:, -1].argmax(-1).size)
