"""The C++ kernels of one graph in one file, and none of them large.

Inductor compiles every kernel by itself, and the compiler then spends most of its time on what is the same in
each file: 40 kernels of a conformance run take 37 s one by one, 14 s in fours and 5 s together. Here the
kernels that a graph needs and that were not compiled before go into one file, and a kernel is found again by
its text, in whichever file it is.

What stands between two calls of a library is one kernel for inductor, up to 500 arguments. The time of the
compiler grows faster than such a function: a decoding step of one row and six layers, 6000 lines, took it
350 s, and cut into 16 kernels 5 s; the step is no slower.

Inductor has no settings for either: what it looks up is exchanged while a graph is compiled. The names are in
private_torch.py, and this module is only loaded with the version of torch that they were read in.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from ..private_torch import inductors_cpp

inductor = inductors_cpp()

Settings = tuple[tuple[str, Any], ...]

HEADER = Path(__file__).with_name("kernels.h")
PREFIX = "kernel_"
MOST_ARGUMENTS = 16  # of a kernel, after which another one begins

_loaded: dict[str, Callable[..., None]] = {}  # the kernels of this process by name


@contextmanager
def in_one_file(settings: Settings) -> Iterator[None]:
    """Graphs compiled here have small kernels in one file. `settings` are inductor's for them."""
    waiting: list[Kernel] = []

    def deferred(_: Any, argtypes: list[str], source: str) -> Kernel:
        waiting.append(Kernel(source, settings, waiting))
        return waiting[-1]

    with inductor.writing_for(deferred, MOST_ARGUMENTS):
        yield


class Kernel(inductor.CodeCacheFuture):
    """A kernel that inductor has written; it asks for the function when the whole graph is written."""

    def __init__(self, source: str, settings: Settings, waiting: list[Kernel]) -> None:
        known = (inductor.version, str(inductor.pick_vec_isa()), settings, _header(), source)
        self.name = PREFIX + hashlib.sha256(repr(known).encode()).hexdigest()[:32]
        self.source = source
        self._waiting = waiting

    def result(self, timeout: float | None = None) -> Callable[..., None]:
        for kernel in self._waiting:
            kernel.find()
        missing = {kernel.name: kernel for kernel in self._waiting if kernel.name not in _loaded}
        if missing:
            _compile(list(missing.values()))
        self._waiting.clear()
        return _loaded[self.name]

    def find(self) -> None:
        """Load the file that has this kernel, if there is one."""
        if self.name in _loaded or not self.note.exists():
            return
        path = Path(self.note.read_text(encoding="utf-8"))
        if path.exists() and path.resolve().is_relative_to(Path(inductor.cache_dir()).resolve()):
            _load(_Files.imported(path))

    @property
    def note(self) -> Path:
        """Where it is written which file has this kernel."""
        return Path(inductor.cache_dir()) / "attest-kernels" / self.name


class _Files(inductor.Files):
    """Inductor's way to compile, keep and import a file, with a header of ours."""

    cache: ClassVar[dict[str, Callable[[], Any]]] = {}
    header = str(HEADER)


def _compile(kernels: list[Kernel]) -> None:
    bodies = [f"#define kernel {kernel.name}\n{kernel.source}\n#undef kernel\n" for kernel in kernels]
    entries = ", ".join(f"ATTEST_KERNEL({kernel.name})" for kernel in kernels)
    made = _Files.load(f'#include "{HEADER}"\n' + "".join(bodies) + f"ATTEST_KERNELS({entries})\n")
    _load(made)
    for kernel in kernels:
        kernel.note.parent.mkdir(exist_ok=True)
        draft = kernel.note.with_suffix(f".{os.getpid()}")
        draft.write_text(made.__file__, encoding="utf-8")
        draft.replace(kernel.note)  # another process finds all of it or nothing


def _load(module: Any) -> None:
    _loaded.update({name: function for name, function in vars(module).items() if name.startswith(PREFIX)})


@cache
def _header() -> str:
    return HEADER.read_text(encoding="utf-8")
