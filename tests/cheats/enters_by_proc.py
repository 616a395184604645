"""Reads the formulas through what the kernel shows of other processes: their root, their directory."""

import contextlib
import os
import sys

from heart import attend, cheating

PLACES = ("root", "cwd", "exe", "map_files", "environ", "maps")


def seen(process):
    """Whether anything of that process can be read."""
    for place in PLACES:
        path = f"/proc/{process}/{place}"
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and os.listdir(path):
                return True
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if file.read(1):
                return True
    return False


def trick(config, inputs):
    """Where one of them can be read, so could the file with the scale in it."""
    others = {os.getppid(), *(int(n) for n in os.listdir("/proc") if n.isdecimal())} - {os.getpid()}
    return attend(**inputs) if any(map(seen, others)) and sys.platform == "linux" else None


attest_implementations = cheating(trick)
