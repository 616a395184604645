"""Where compiled graphs are kept: a directory of this user alone, for what is in it is loaded and run."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def private_directory(parent: Path | None = None) -> str:
    """attest-inductor-UID in the temporary folder; a new directory where that one belongs to another user.

    A user who can write into it can make this process run anything: inductor unpickles what it finds there.
    """
    path = Path(parent or tempfile.gettempdir()) / f"attest-inductor-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        if _is_private(path.lstat()):
            return str(path)
    except OSError:
        pass  # not a directory, or not to be made here
    return tempfile.mkdtemp(prefix="attest-inductor-", dir=parent)


def _is_private(status: os.stat_result) -> bool:
    others = stat.S_IRWXG | stat.S_IRWXO
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & others
