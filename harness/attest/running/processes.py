"""How to end what a run has started: a process, and everything that it started in its turn."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

DEATH_SIGNAL, CHILD_SUBREAPER = 1, 36  # man 2 prctl
ENDING_SECONDS = 5.0  # for a process to end what it has started
EMPTY = 3  # looks in a row that find nothing
ROUNDS = 200  # of looking for what is left: a process may start another one meanwhile
MARK = "ATTEST_RUN"  # names the run's temporary directory in the environment of all that it starts


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started in a session of its own, with its children; wait for it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def supervise() -> None:
    """Go on in a child. This process waits for it, ends whatever it has started, and ends as it did.

    A process whose parent is gone falls to this one, whatever its session and its environment. Linux only;
    elsewhere this does nothing.
    """
    libc = _with_prctl()
    if libc is None or libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0):
        return
    parent = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: _end_all(signal.SIGTERM))
    child = os.fork()
    if not child:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc.prctl(DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    os.closerange(0, 256)  # the pipes are the child's: they end with it
    status = 0
    ended = 0 if os.getppid() == parent else child
    while ended != child:
        ended, status = os.waitpid(-1, 0)
    _end_all(os.waitstatus_to_exitcode(status))


def _with_prctl() -> ctypes.CDLL | None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            return ctypes.CDLL(None)
    return None


def _end_all(code: int) -> None:
    """End every process below this one, and this one with an exit code or, where it is negative, a signal."""
    empty = 0  # a process whose parent ends while it is looked for is below nobody at that moment
    for _ in range(ROUNDS):
        found = list(_below(os.getpid()))
        empty = 0 if found else empty + 1
        if empty == EMPTY:
            break
        for number in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)
    if code < 0:
        with suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))


def _below(root: int) -> Iterator[int]:
    """The children of a process, their children and so on; not those that have ended."""
    children: dict[int, list[int]] = {}
    for number in _numbers():
        with suppress(OSError, ValueError, IndexError):
            state, parent = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(number)
    waiting = [root]
    while waiting:
        found = children.get(waiting.pop(), [])
        waiting += found
        yield from found


def end_supervised(process: subprocess.Popen[bytes]) -> None:
    """End a process that called `supervise`, with all that it started; by force where it does not listen."""
    if sys.platform == "linux" and process.poll() is None:
        with suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)  # the implementation may have stopped it
            process.wait(ENDING_SECONDS)
    end_group(process)


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
