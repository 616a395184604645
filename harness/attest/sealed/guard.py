"""What the process of an implementation may not touch. Called there before anything of it is imported.

On Linux the kernel keeps the rules (Landlock, since 5.13): no file of the harness, its records or another
process can be opened, nothing that Python is started from can be changed, no process outside can be traced
or, since 6.12, sent a signal. Nothing that runs here can take that back. Where the kernel knows no Landlock,
an audit hook refuses what goes through Python.
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
READ_ONLY = EXECUTE | READ | LIST
RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15}  # how many rights each version of the interface knows
SCOPE_SIGNALS = 2  # since version 6
NO_NEW_PRIVILEGES, DEATH_SIGNAL = 38, 1  # man 2 prctl
PROCESSES = "/proc"
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Events that change files, and how many of their arguments are paths; see Python's "Audit events table".
CHANGES = {
    "os.rename": 2, "os.link": 2, "os.symlink": 2, "os.remove": 1, "os.rmdir": 1, "os.mkdir": 1,
    "os.truncate": 1, "os.chmod": 1, "os.chown": 1,
}  # fmt: skip


def restrict(forbidden: Sequence[str], unchangeable: Sequence[str], scratch: str) -> bool:
    """Close some directories, all but `scratch` in them, and the others to writing; whether the kernel does.

    What is unchangeable is what Python loads: the next process of the harness would run what is put there.
    """
    end_with_parent()
    closed, kept = (tuple(map(os.path.realpath, paths)) for paths in (forbidden, unchangeable))
    by_kernel = False
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            by_kernel = _landlock(closed, kept, os.path.realpath(scratch))
    sys.addaudithook(_hook(closed, kept, os.path.realpath(scratch)))
    return by_kernel


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


def _landlock(closed: tuple[str, ...], kept: tuple[str, ...], scratch: str) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    every = (1 << RIGHTS_BY_VERSION[min(version, 3)]) - 1
    attributes = struct.pack("QQQ", every, 0, SCOPE_SIGNALS if version >= 6 else 0)
    size = len(attributes) if version >= 6 else 8
    rules = _checked(libc.syscall(CREATE_RULESET, attributes, size, 0))
    for path, rights in _rules("/", closed, kept, every):
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


def _rules(
    directory: str, closed: tuple[str, ...], kept: tuple[str, ...], rights: int
) -> Iterator[tuple[str, int]]:
    """Rules only allow, so everything beside such a directory and beside its parents is named.

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
        allowed = rights & READ_ONLY if path in kept else rights
        if path == PROCESSES or any(within.startswith(path + "/") for within in closed + kept):
            yield from _rules(path, closed, kept, allowed)
        else:
            yield path, allowed


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


def _hook(closed: tuple[str, ...], kept: tuple[str, ...], scratch: str) -> Any:
    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        for given, changes in _paths(event, arguments):
            path = os.path.realpath(os.fsdecode(given))
            if _beneath(path, (scratch,)) and path != scratch:
                continue
            if _beneath(path, closed) or _of_process(path) or (changes and _beneath(path, kept)):
                raise PermissionError(13, "closed in a sealed run", path)

    return refuse


def _paths(event: str, arguments: tuple[Any, ...]) -> Iterator[tuple[str | bytes, bool]]:
    """The paths that an event speaks of, and whether it would change what is there."""
    if event == "open":
        found, changes = arguments[:1], any(isinstance(f, int) and f & WRITING for f in arguments[2:3])
    elif event in CHANGES:
        found, changes = arguments[: CHANGES[event]], True
    else:
        return
    for path in found:
        if isinstance(path, str | bytes):
            yield path, changes


def _beneath(path: str, directories: tuple[str, ...]) -> bool:
    return any(path == within or path.startswith(within + "/") for within in directories)


def _of_process(path: str) -> bool:
    """Whether this is a file of another process."""
    parts = path.split("/")
    return len(parts) > 3 and parts[1] == "proc" and _other_process("/".join(parts[:3]))
