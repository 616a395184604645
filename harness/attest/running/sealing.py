"""Open sealed processes for a run: what is closed to them, and where they may write."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attest
from attest.registry import Request
from attest.sealed.implementation import SealedImplementation, opened
from attest.sealed.outside import Channel
from attest.spec import spec_directory


def fingerprint() -> str:
    """Of every file of the harness and of the spec: the kernel may not have kept them closed."""
    digest = hashlib.blake2b(digest_size=16)
    for home in (Path(attest.__file__).parent, spec_directory()):
        for path in sorted(p for p in home.rglob("*") if p.suffix in (".py", ".toml", ".json", ".j2")):
            digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()


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
