"""Which methods of the reference a trace runs. A change of any other makes no difference to its answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

from attest.diagnosis.recording import answers
from attest.diagnosis.traces import Trace
from attest.reference.implementation import ReferenceImplementation


def executed(traces: Sequence[Trace]) -> frozenset[CodeType]:
    """The code of every Python function that runs while the reference answers the traces."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    before = sys.getprofile()
    for trace in traces:
        sys.setprofile(note)
        try:
            for _ in answers(trace.steps, ReferenceImplementation()):
                pass
        finally:
            sys.setprofile(before)
    return frozenset(seen)


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
