"""One process per job: what an implementation breaks, leaks or never finishes costs no other job anything."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from attest.registry import sentence
from attest.sealed.outside import ended_by

Job = TypeVar("Job")
Result = TypeVar("Result")

# An implementation that asks for more gets a MemoryError; eager's largest case needs a tenth of it.
MEMORY = 6 * 2**30


@dataclass(frozen=True)
class Ended:
    """A process that gave no result, and how it ended."""

    how: str


def each_apart(
    function: Callable[[Job], Result], jobs: Iterable[Job], *, workers: int
) -> Iterator[tuple[Job, Result | Ended]]:
    """Each job with its result, in the order in which they end. Jobs are taken as processes become free."""
    context = _context()
    waiting = iter(jobs)
    running: dict[Connection, tuple[Job, Any]] = {}
    try:
        while True:
            while len(running) < workers and (job := next(waiting, None)) is not None:
                mine, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(theirs, function, job), daemon=True)
                process.start()
                theirs.close()
                running[mine] = (job, process)
            if not running:
                return
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                job, process = running.pop(ready)
                yield job, _result(ready, process)
    finally:
        for _, process in running.values():
            process.kill()
            process.join()


def _context() -> Any:
    """Processes forked from a server that has imported the criteria and runs no thread."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["attest.trials.preloaded"])
    return context


def _work(pipe: Connection, function: Callable[[Any], Any], job: Any) -> None:
    _end_with_the_caller()
    with suppress(ValueError, OSError):  # a lower limit that the machine has set already stays
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    try:
        result = function(job)
    except BaseException as error:
        result = Ended(f"raised {sentence(error)}")
    pipe.send(result)
    pipe.close()


def _end_with_the_caller() -> None:
    """A job has no use when whoever asked for it was killed; the server it is forked from lives on."""
    caller = multiprocessing.parent_process()
    assert caller is not None

    def watch() -> None:
        wait([caller.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _result(pipe: Connection, process: Any) -> Any:
    try:
        result = pipe.recv()
    except EOFError:
        result = None
    pipe.close()
    process.join()
    return Ended(ended_by(process.exitcode)) if result is None else result
