"""Open sealed processes for a run: what is closed to them, and where they may write."""

from __future__ import annotations

import hashlib
import mmap
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attest
from attest.registry import Request, UsageError
from attest.sealed.implementation import SealedImplementation, opened
from attest.sealed.outside import Channel
from attest.sealed.wire import HALF
from attest.spec import spec_directory


def fingerprint() -> str:
    """Of every file of the harness and of the spec: the kernel may not have kept them closed."""
    digest = hashlib.blake2b(digest_size=16)
    for home in (Path(attest.__file__).parent, spec_directory()):
        for path in sorted(p for p in home.rglob("*") if p.suffix in (".py", ".toml", ".json", ".j2")):
            digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()


def check_room() -> None:
    """UsageError where a limit on memory leaves no room for what the two processes share."""
    try:
        mmap.mmap(-1, 2 * HALF).close()
    except OSError as error:
        raise UsageError(
            f"a sealed run needs {2 * HALF // 2**30} GB of addresses to share with the implementation, which "
            f"it cannot have ({error.strerror}); raise the limit (ulimit -v) or judge with --open"
        ) from None


def sealed_implementations(request: Request, closed: Sequence[str]) -> list[SealedImplementation]:
    """The implementations of a plugin in a process of its own, to which these directories are closed too.

    From now on temporary files of this process are made where the other one can read them: checkpoints pass
    between the two.
    """
    home = next((path for path in closed if Path(path).is_dir()), None)
    scratch = tempfile.mkdtemp(prefix="attest-scratch-", dir=home)
    tempfile.tempdir = scratch
    harness = Path(attest.__file__).parent
    channel = Channel([str(harness), str(spec_directory()), *closed], scratch)
    try:
        return opened(channel, request)
    except BaseException:
        channel.close()
        raise
