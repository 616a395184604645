"""The model a run trains once and shares: by file lock and canonical parameters on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

_directory: Path | None = None


def use_directory(path: str) -> None:
    """Where this run keeps what it trains."""
    global _directory
    if path:
        _directory = Path(path)


def shared_directory() -> Path:
    """The run's directory, or a new temporary one outside a run."""
    global _directory
    if _directory is None:
        _directory = Path(tempfile.mkdtemp(prefix="attest-"))
    return _directory
