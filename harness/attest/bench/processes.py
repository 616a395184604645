"""One process for every entrant, so that none slows another down.

Thread pools that share a process share their waiting: with more threads than cores libgomp puts them to sleep
at every barrier, and a greedy step of one row takes twice as long once another runtime has been used.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from attest.bench.entrants import Entrant, from_requests
from attest.bench.peers import peers
from attest.bench.workloads import Workload
from attest.contract import Array
from attest.outcomes import NotOffered
from attest.registry import sentence

SECONDS_TO_END = 5


@dataclass(frozen=True)
class Field:
    """The entrants of a benchmark as plain names, which can be sent to another process."""

    requests: tuple[str, ...]
    device: str
    threads: int
    with_peers: bool

    def entrants(self) -> tuple[list[Entrant], list[str]]:
        """The entrants that can run here, and one sentence for each peer that cannot."""
        others, missing = peers(self.threads) if self.with_peers else ([], [])
        return [*from_requests(self.requests, self.device), *others], missing


class RemoteEntrant:
    """An entrant that is prepared, run and timed in another process."""

    def __init__(self, entrant: Entrant, field: Field) -> None:
        self.name, self.peer, self.dtype = entrant.name, entrant.peer, entrant.dtype
        spawning = get_context("spawn")
        self._connection, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(theirs, field, entrant.name), daemon=True)
        self._process.start()
        theirs.close()

    def warm(self, work: Workload) -> Array | None:
        written: Array | None = self._ask("warm", work)
        return written

    def seconds(self, clock: str) -> float:
        return float(self._ask("seconds", clock))

    def profile(self, most: int) -> list[tuple[str, float]]:
        return list(self._ask("profile", most))

    def close(self) -> None:
        self._connection.close()
        self._process.join(SECONDS_TO_END)
        if self._process.is_alive():
            self._process.kill()

    def _ask(self, method: str, argument: Any) -> Any:
        try:
            self._connection.send((method, argument))
            answer, refusal = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(SECONDS_TO_END)
            raise NotOffered(f"its process ended with exit code {self._process.exitcode}") from None
        if refusal is not None:
            raise NotOffered(refusal)
        return answer


@contextmanager
def separate_processes(field: Field) -> Iterator[tuple[list[RemoteEntrant], list[str]]]:
    """A process for each entrant while the block runs, and the names that did not start."""
    entrants, missing = field.entrants()
    with ExitStack() as stack:
        started = [RemoteEntrant(entrant, field) for entrant in entrants]
        for one in started:
            stack.callback(one.close)
        yield started, missing


def set_threads(threads: int) -> int:
    """Set torch's threads where it is installed, and answer how many there were."""
    if find_spec("torch") is None:
        return threads
    import torch

    before = int(torch.get_num_threads())
    torch.set_num_threads(threads)
    return before


def _serve(connection: Connection, field: Field, name: str) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # on Ctrl-C the parent closes the pipe, which ends this process
    set_threads(field.threads)
    entrant = next(one for one in field.entrants()[0] if one.name == name)
    while True:
        try:
            method, argument = connection.recv()
        except EOFError:
            return
        try:
            connection.send((getattr(entrant, method)(argument), None))
        except NotOffered as reason:
            connection.send((None, str(reason)))
        except Exception as error:  # the others go on
            connection.send((None, f"failed: {sentence(error)}"))
