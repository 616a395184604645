"""Which processes are left somewhere, and waiting until none is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def waited(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def processes_in(directory: Path) -> list[str]:
    """Processes whose working directory this is. Needs /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if os.readlink(entry / "cwd") == str(directory) and not ended:
                found.append(entry.name)
        except OSError:
            continue
    return found
