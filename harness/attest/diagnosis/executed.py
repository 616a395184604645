"""Which methods of the reference a trace runs. A change of any other makes no difference to its answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from attest.diagnosis.recording import answers
from attest.diagnosis.traces import Trace
from attest.reference.implementation import ReferenceImplementation


class Executed(set[CodeType]):
    """The code of every Python function that the reference has run in the blocks of `noting`.

    `complete` is False when somebody else took the profile hook meanwhile.
    """

    complete = True

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.add(frame.f_code)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note what runs in this thread."""
        before, note = sys.getprofile(), self._note
        sys.setprofile(note)
        try:
            yield
        finally:
            self.complete &= sys.getprofile() is note
            sys.setprofile(before)


def executed(traces: Sequence[Trace]) -> frozenset[CodeType]:
    """The code of every Python function that runs while the reference answers the traces."""
    seen = Executed()
    with seen.noting():
        for trace in traces:
            for _ in answers(trace.steps, ReferenceImplementation()):
                pass
    return frozenset(seen)


def adds_names(piece: type[Any]) -> bool:
    """Whether a class has public names that the reference does not have, for which somebody may ask."""
    bases = [kind for kind in piece.__mro__ if kind.__module__.startswith("attest.reference")]
    own = {name for kind in piece.__mro__ if kind not in bases and kind is not object for name in vars(kind)}
    known = {name for kind in (*bases, object) for name in vars(kind)} | {"__annotations__"}
    return any(name not in known and (name.endswith("__") or not name.startswith("_")) for name in own)


def may_matter(piece: type[Any], seen: frozenset[CodeType]) -> bool:
    """Whether a class with which one of the reference's is replaced changes anything that runs.

    What it overrides is a function that ran, or no function at all: a number, or a class.
    """
    own: dict[str, Any] = {}
    for kind in reversed(piece.__mro__):
        if not kind.__module__.startswith("attest.reference"):
            own |= vars(kind)
    bases = [kind for kind in piece.__mro__ if kind.__module__.startswith("attest.reference")]
    for name, value in own.items():
        if name.startswith("__") and code_of(value) is None:
            continue  # what Python itself puts into a class
        overridden = next((vars(base)[name] for base in bases if name in vars(base)), None)
        code = code_of(overridden)
        if overridden is not None and (code is None or code in seen):
            return True
        if overridden is None and code_of(value) is None and not name.startswith("_"):
            return True  # an attribute of which the reference may ask whether it is there
        if overridden is None and name == "__init__":
            return True
    return False


def code_of(value: Any) -> CodeType | None:
    """The code behind a method, a property or a static method."""
    for name in ("fget", "__func__", "func"):
        value = getattr(value, name, None) or value
    code = getattr(value, "__code__", None)
    return code if isinstance(code, CodeType) else None


def overridden(piece: type[Any]) -> set[str]:
    """The methods of the reference that a class overrides, as Class.method."""
    bases = [kind for kind in piece.__mro__ if kind.__module__.startswith("attest.reference")]
    own = {name for kind in piece.__mro__ if kind not in bases for name in vars(kind)}
    return {f"{base.__name__}.{name}" for base in bases for name in own if code_of(vars(base).get(name))}
