"""What an implementation prints: passed on up to a limit, so that it fills neither a disk nor a terminal."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress

MOST_PRINTED = 2**20  # bytes of each stream of one process
STREAMS = (1, 2)
SETTLING_SECONDS = 0.2  # for what was printed before a record to be passed on before it


class Printed:
    """Standard output and error of a process that is about to start."""

    def __init__(self) -> None:
        pipes = [os.pipe() for _ in STREAMS]
        self._reading = [reading for reading, _ in pipes]
        self.stdout, self.stderr = (writing for _, writing in pipes)

    def begin(self) -> None:
        """The process has started and holds its ends."""
        os.close(self.stdout)
        os.close(self.stderr)
        for reading, writing in zip(self._reading, STREAMS):
            threading.Thread(target=_pass_on, args=(reading, writing), daemon=True).start()

    def settle(self) -> None:
        """Wait until nothing is on its way, or a moment where there is no end of it."""
        deadline = time.monotonic() + SETTLING_SECONDS
        with suppress(OSError, ValueError):  # it has ended
            while time.monotonic() < deadline and select.select(self._reading, [], [], 0)[0]:
                time.sleep(0.001)


def _pass_on(reading: int, writing: int) -> None:
    left = MOST_PRINTED
    while part := os.read(reading, 2**16):
        shown, left = part[:left], max(0, left - len(part))
        with suppress(OSError):  # the stream is closed, or its disk full
            os.write(writing, shown)
    os.close(reading)
