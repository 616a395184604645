"""End what was started: a process, and everything that it started in its turn."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started in a session of its own, with its children; wait for it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
