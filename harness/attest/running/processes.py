"""How to end what a run has started: a process, and everything that it started in its turn."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "ATTEST_RUN"  # names the run's temporary directory in the environment of all that it starts


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started in a session of its own, with its children; wait for it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_marked(run: str) -> None:
    """Kill every process of a run, also one that began a session of its own. Only where there is /proc.

    A process inherits its environment, and with it the directory of the run. A few rounds, because a process
    may start another one while it is being looked for.
    """
    for _ in range(5):
        found = list(_marked(run)) if run else []
        for number in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        if not found:
            return


def _marked(run: str) -> Iterator[int]:
    for number in _numbers():
        with suppress(OSError):  # it has ended, or belongs to somebody else
            if run.encode() in Path(f"/proc/{number}/environ").read_bytes() and number != os.getpid():
                yield number


def _numbers() -> list[int]:
    """Of all processes; none where the system does not tell by /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
