"""Stop a criterion that hangs: first by an exception Hypothesis lets through, then by ending the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

from attest.outcomes import Timeout

GRACE = 20.0  # seconds given to the exception before a hang in C is ended the hard way
EXIT_CODE = 124

_watchdog: threading.Timer | None = None


def set_timer(seconds: float, what: str) -> None:
    """Start the clock of one criterion. Main thread only."""
    global _watchdog

    def expired(signum: int, frame: FrameType | None) -> None:
        raise Timeout(f"did not finish within {seconds:g} s")

    signal.signal(signal.SIGALRM, expired)
    # An interval repeats the signal: an implementation that swallows BaseException meets it again.
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    _watchdog = threading.Timer(seconds + GRACE, _end, (what, seconds))
    _watchdog.daemon = True
    _watchdog.start()


def cancel_timer() -> None:
    """Stop the clock."""
    global _watchdog
    signal.setitimer(signal.ITIMER_REAL, 0)
    if _watchdog is not None:
        _watchdog.cancel()
        _watchdog = None


def _end(what: str, seconds: float) -> None:
    print(
        f"{what} hangs in compiled code; ending the process after {seconds + GRACE:g} s", file=sys.__stderr__
    )
    os._exit(EXIT_CODE)
