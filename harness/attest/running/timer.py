"""Stop a criterion that hangs by an exception that Hypothesis lets through.

A hang in compiled code meets no exception. Whoever started this process ends it then (see isolation.py);
should that one be gone, the kernel does on Linux, and elsewhere a clock in C, which needs no Python and so
not the lock that the hang may hold.

Time in which this process was stopped, by a person or a batch system, does not count.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from time import monotonic, process_time, sleep  # an implementation may put others into their module
from types import FrameType

from attest.outcomes import Timeout

GRACE = 20.0  # seconds given to the exception before the process is ended from outside
LAST = 60.0  # seconds after the limit when the process ends itself
AGAIN = 5.0  # seconds to the next signal: an implementation that swallows BaseException meets it again
BEAT = 1.0
STOPPED = 3.0  # seconds without a beat, and without work, after which this process was stopped


def set_timer(seconds: float) -> None:
    """Start the clock of one criterion, anew where it runs. Main thread only."""
    _beats.begin()

    def expired(signum: int, frame: FrameType | None) -> None:
        if not _struck and (lost := _beats.lost()) > 0:
            signal.setitimer(signal.ITIMER_REAL, lost, AGAIN)
            return
        _struck[:] = [f"did not finish within {seconds:g} s"]
        raise Timeout(_struck[0])

    _struck.clear()
    signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), AGAIN)
    if sys.platform != "linux":
        faulthandler.dump_traceback_later(seconds + LAST, exit=True, file=_nowhere())


def set_processor_timer(seconds: float) -> None:
    """The same in processor time of this process: what it waits for, or a busy machine, does not count."""

    def expired(signum: int, frame: FrameType | None) -> None:
        _struck[:] = [f"did not finish within {seconds:g} s of processor time"]
        raise Timeout(_struck[0])

    _struck.clear()
    signal.signal(signal.SIGPROF, expired)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-3), AGAIN)


class Beats:
    """A thread that looks at the clock every second, and so sees when this process did not run at all."""

    def __init__(self) -> None:
        self._last = self._spent = self._lost = 0.0
        self._process = 0

    def begin(self) -> None:
        """Forget what was lost; a process that was forked begins a thread of its own."""
        self._last, self._spent, self._lost = monotonic(), process_time(), 0.0
        if self._process != os.getpid():
            self._process = os.getpid()
            threading.Thread(target=self._beat, daemon=True).start()

    def lost(self) -> float:
        """Seconds in which this process was stopped since this was last asked."""
        self._look()
        lost, self._lost = self._lost, 0.0
        return lost

    def _beat(self) -> None:
        while True:
            sleep(BEAT)
            self._look()

    def _look(self) -> None:
        """A gap in which it computed is a call in C that kept the lock, and no stop."""
        now, spent = monotonic(), process_time()
        gap = now - self._last - (spent - self._spent)
        self._last, self._spent = now, spent
        if gap > STOPPED:
            self._lost += gap


def struck() -> str:
    """What the clock said when it struck; empty where it has not.

    The exception may have been swallowed, by a finaliser for one, or have become another one on its way.
    """
    return _struck[0] if _struck else ""


def cancel_timer() -> None:
    """Stop the clock."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.setitimer(signal.ITIMER_PROF, 0)
    faulthandler.cancel_dump_traceback_later()


_beats = Beats()
_struck: list[str] = []
_sink: list[int] = []


def _nowhere() -> int:
    """An open file into which the watchdog of faulthandler writes its traceback; nobody reads it."""
    if not _sink:
        _sink.append(os.open(os.devnull, os.O_WRONLY))
    return _sink[0]
