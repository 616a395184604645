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


def all_of(front: int) -> list[int]:
    """A process and all below it, parents first."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [front]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def processes_below(front: int, words: str) -> list[int]:
    """Those that a process has started, and theirs, whose command line holds these words; parents first."""
    found = []
    for process in all_of(front)[1:]:
        try:
            line = Path(f"/proc/{process}/cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue
        found += [process] if words in line else []
    return found
