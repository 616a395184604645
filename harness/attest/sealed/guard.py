"""What the process of an implementation may not touch. Called there before anything of it is imported.

On Linux the kernel keeps the rules (Landlock, since 5.13): no file of the harness, its records or another
process can be opened, no process outside can be traced or, since 6.12, sent a signal. Nothing that runs here
can take that back. Where the kernel knows no Landlock, an audit hook refuses what goes through Python.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

# man 7 landlock
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PATH_BENEATH = 1
EXECUTE, WRITE, READ, LIST, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15}  # how many rights each version of the interface knows
SCOPE_SIGNALS = 2  # since version 6
NO_NEW_PRIVILEGES, DEATH_SIGNAL = 38, 1  # man 2 prctl
PROCESSES = "/proc"


def restrict(forbidden: Sequence[str], scratch: str) -> bool:
    """Close these directories, all but `scratch` in them; whether the kernel sees to it."""
    end_with_parent()
    closed = tuple(os.path.realpath(path) for path in forbidden)
    kept = False
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            kept = _landlock(closed, os.path.realpath(scratch))
    sys.addaudithook(_hook(closed, os.path.realpath(scratch)))
    return kept


def end_with_parent() -> None:
    """This process serves another one and has no use without it. On Linux the kernel sees to that."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _landlock(closed: tuple[str, ...], scratch: str) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    every = (1 << RIGHTS_BY_VERSION[min(version, 3)]) - 1
    attributes = struct.pack("QQQ", every, 0, SCOPE_SIGNALS if version >= 6 else 0)
    size = len(attributes) if version >= 6 else 8
    rules = _checked(libc.syscall(CREATE_RULESET, attributes, size, 0))
    for path, rights in _rules("/", closed, every):
        _allow(libc, rules, path, rights)
    _allow(libc, rules, scratch, every)
    _checked(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(libc.syscall(RESTRICT_SELF, rules, 0))
    os.close(rules)
    return True


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "landlock")
    return result


def _rules(directory: str, closed: tuple[str, ...], every: int) -> Iterator[tuple[str, int]]:
    """Rules only allow, so everything beside a closed directory and beside its parents is named.

    The parents themselves can be listed, which importing from them needs, and nothing can be made in them.
    """
    yield directory, LIST
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        path = os.path.join(directory, entry.name)
        if path in closed or entry.is_symlink() or _other_process(path):
            continue
        if path == PROCESSES or any(within.startswith(path + "/") for within in closed):
            yield from _rules(path, closed, every)
        else:
            yield path, every


def _other_process(path: str) -> bool:
    parent, _, name = path.rpartition("/")
    return parent == PROCESSES and name.isdecimal() and int(name) != os.getpid()


def _allow(libc: Any, rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # it went away meanwhile
        return
    if not os.path.isdir(path):
        rights &= EXECUTE | WRITE | READ | TRUNCATE
    libc.syscall(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
    os.close(opened)


def _hook(closed: tuple[str, ...], scratch: str) -> Any:
    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not arguments or not isinstance(arguments[0], str | bytes):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path.startswith(scratch + "/"):
            return
        if any(path == within or path.startswith(within + "/") for within in closed) or _of_process(path):
            raise PermissionError(13, "closed in a sealed run", path)

    return refuse


def _of_process(path: str) -> bool:
    """Whether this is a file of another process."""
    parts = path.split("/")
    return len(parts) > 3 and parts[1] == "proc" and _other_process("/".join(parts[:3]))
