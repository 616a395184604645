"""Stop a criterion that hangs by an exception that Hypothesis lets through.

A hang in compiled code meets no exception. Whoever started this process ends it then (see isolation.py);
should that one be gone, a clock in C does, which needs no Python and so not the lock that the hang may hold.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from types import FrameType

from attest.outcomes import Timeout

GRACE = 20.0  # seconds given to the exception before the process is ended from outside
LAST = 60.0  # seconds after the limit when the process ends itself


def set_timer(seconds: float) -> None:
    """Start the clock of one criterion, anew where it runs. Main thread only."""

    def expired(signum: int, frame: FrameType | None) -> None:
        _struck[:] = [f"did not finish within {seconds:g} s"]
        raise Timeout(_struck[0])

    _struck.clear()
    signal.signal(signal.SIGALRM, expired)
    # An interval repeats the signal: an implementation that swallows BaseException meets it again.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), 5.0)
    faulthandler.dump_traceback_later(seconds + LAST, exit=True, file=_nowhere())


def struck() -> str:
    """What the clock said when it struck; empty where it has not.

    The exception may have been swallowed, by a finaliser for one, or have become another one on its way.
    """
    return _struck[0] if _struck else ""


def cancel_timer() -> None:
    """Stop the clock."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


_struck: list[str] = []
_sink: list[int] = []


def _nowhere() -> int:
    """An open file into which the watchdog of faulthandler writes its traceback; nobody reads it."""
    if not _sink:
        _sink.append(os.open(os.devnull, os.O_WRONLY))
    return _sink[0]
