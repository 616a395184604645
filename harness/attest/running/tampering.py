"""Whose fault it is that the harness failed: an implementation that is not sealed can break it.

It runs in the same process. Asked only after something has failed; before that, once, for what to compare.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import hypothesis
import numpy as np

import attest
from attest.registry import sentence

WATCHED = frozenset({*sys.stdlib_module_names, "attest", "hypothesis", "numpy"})
TRUSTED = WATCHED | {
    "torch",
    "triton",
}  # what these put into others' modules when they are imported is theirs
LIBRARY = sysconfig.get_path("stdlib")
HOMES = tuple(
    os.path.realpath(path) + os.sep
    for path in (*(Path(str(m.__file__)).parent for m in (attest, hypothesis, np)), Path(LIBRARY))
)
INSTALLED = os.path.realpath(sysconfig.get_path("purelib")) + os.sep  # may lie beneath the standard library
_MISSING = object()
PYTHONS_OWN = frozenset({"last_type"})  # of sys: set by Python and by pytest whenever something failed
_before: dict[str, dict[str, Any]] = {}
_methods_before: dict[type, dict[str, Any]] = {}
_threads_before: set[int] = set()


def remember() -> None:
    """What is there before an implementation is loaded: functions, classes, methods, threads. Once."""
    if not _before:
        _threads_before.update(sys._current_frames())
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in WATCHED:
                _before[name] = _callables(vars(module))
        for kind in _classes():
            _methods_before[kind] = _methods(kind)


def tampering(error: BaseException) -> str:
    """What an implementation did to this process so that this was raised; empty where nothing is seen."""
    if not _before:  # the harness is on trial, and no implementation is
        return ""
    for where, name, value in _changes():
        if not _is_ours(value):
            return f"the implementation changed {where}.{name}"
    if PathFinder not in sys.meta_path or PathFinder.find_spec("this") is None:
        return "the implementation changed what this process imports from"
    if any(_is_foreign(frame.f_code) for frame in _frames(error)):
        return f"code of the implementation raised {sentence(error)} while the harness ran"
    if _foreign_thread():
        return f"{sentence(error)} was raised while a thread of the implementation ran beside the harness"
    return ""


def _callables(names: Mapping[str, Any]) -> dict[str, Any]:
    found = list(names.items())
    return {name: value for name, value in found if callable(value) and name not in PYTHONS_OWN}


def _classes() -> set[type]:
    """The classes of the modules that are watched."""
    return {
        value
        for module, names in _before.items()
        for value in names.values()
        if isinstance(value, type) and value.__module__ == module
    }


def _methods(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if type(value) is FunctionType}


def _changes() -> Iterator[tuple[str, str, Any]]:
    """Module or class, name, and what stands there now in place of what stood there."""
    for module, names in _before.items():
        now = getattr(sys.modules.get(module), "__dict__", {})
        for name, value in names.items():
            if now.get(name, _MISSING) is not value:
                yield module, name, now.get(name)
    for kind, before in _methods_before.items():
        for name, value in _methods(kind).items():
            if value is not before.get(name) and (name in before or _was_known(kind, name)):
                yield f"{kind.__module__}.{kind.__qualname__}", name, value


def _was_known(kind: type, name: str) -> bool:
    """Whether a name may have been asked for before: libraries give names of their own to loggers."""
    return name.startswith("__") or any(name in vars(base) for base in kind.__mro__[1:])


def _is_ours(value: Any) -> bool:
    """A function by its module or, where that is made up, by its file; anything else by its module."""
    named = str(getattr(value, "__module__", None) or "").partition(".")[0] in TRUSTED
    return named or (type(value) is FunctionType and not _is_foreign(value.__code__))


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Of an exception and of those that led to it."""
    waiting, seen = [error], set()
    while waiting:
        error = waiting.pop()
        seen.add(id(error))
        trace = error.__traceback__
        while trace:
            yield trace.tb_frame
            trace = trace.tb_next
        waiting += [e for e in (error.__cause__, error.__context__) if e is not None and id(e) not in seen]


def _is_foreign(code: CodeType) -> bool:
    """Whether it is neither the harness's nor Python's own; a name that is no file's is in angle brackets."""
    name = code.co_filename
    path = os.path.realpath(name)
    inside = any(path.startswith(home) for home in HOMES[:-1])
    of_python = path.startswith(HOMES[-1]) and not path.startswith(INSTALLED)
    return not (name.startswith("<") or inside or of_python)


def _foreign_thread() -> bool:
    """Whether a thread that began since `remember` runs foreign code: older ones started the process."""
    others = _threads_before | {threading.get_ident()}
    for number, frame in sys._current_frames().items():
        found: FrameType | None = frame if number not in others else None
        while found:
            if _is_foreign(found.f_code):
                return True
            found = found.f_back
    return False
