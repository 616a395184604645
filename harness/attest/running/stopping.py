"""Signals to a run: it closes down, leaves a report that names what is missing, and nothing lives on."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TOGETHER = (
    2.0  # seconds within which a second signal is the same wish: a front passes on what a terminal sent
)


def stop_on_signals() -> Callable[[], None]:
    """Treat all of them as Ctrl-C; returns what puts the handlers back. Does nothing in another thread."""
    first: list[float] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if first and time.monotonic() - first[0] < TOGETHER:
            return
        again, first[:] = bool(first), [time.monotonic()]
        if not again or number == signal.SIGINT:  # a person who asks twice does not want to wait for a report
            raise KeyboardInterrupt

    with suppress(ValueError):
        before = {number: signal.signal(number, stop) for number in SIGNALS}
        return lambda: _put_back(before)
    return lambda: None


def _put_back(before: dict[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        with suppress(ValueError, TypeError):  # another thread; a handler that C installed
            signal.signal(number, handler)


def stop_without_reader(descriptor: int) -> None:
    """End this process by SIGTERM when the reading end of this pipe is closed: its reader was killed."""

    def watch() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)
        with suppress(OSError):
            poll.poll()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
