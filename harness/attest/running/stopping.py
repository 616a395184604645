"""Signals to a run: it closes down, leaves a report that names what is missing, and nothing lives on."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any

LOOK_SECONDS = 1.0  # between two looks at whether the parent is there
WAKE_SECONDS = 5.0
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
    """End this process by SIGTERM when its parent, which reads from this pipe, was killed.

    Not every system tells the writer of a pipe that its reader is gone, so the parent is looked at as well.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent and not _closed(descriptor):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _closed(descriptor: int) -> bool:
    """Whether nobody reads from this pipe any more; takes a second where somebody does."""
    if not hasattr(select, "poll"):
        time.sleep(LOOK_SECONDS)
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(LOOK_SECONDS * 1000))


def keep_awake(processes: Callable[[], Iterable[subprocess.Popen[bytes]]]) -> None:
    """Send SIGCONT to these processes now and then: what an implementation has stopped, it has not ended.

    A person who stops a run with Ctrl-Z stops this process as well, and so everything.
    """

    def wake() -> None:
        while True:
            time.sleep(WAKE_SECONDS)
            for process in list(processes()):
                with suppress(OSError):
                    process.send_signal(signal.SIGCONT)

    threading.Thread(target=wake, daemon=True).start()
