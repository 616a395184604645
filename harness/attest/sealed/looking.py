"""What a check sees of the process in which an implementation runs: this one, or a sealed one that is open.

While a sealed process is open both are looked at, so that no check has to know where its implementation is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attest.sealed.outside import live, processor_seconds
from attest.sealed.process_state import bytecodes_here, flops_here, state_here, stir_here

__all__ = ["bytecodes", "changed_since", "flops", "global_state", "processor_seconds", "stir"]


def stir() -> None:
    """Draw from the global generators, so that one which a call seeds anew is seen to change."""
    stir_here()
    for channel in live():
        channel.ask("stir")


def global_state() -> dict[str, Any]:
    """The global state an implementation may not touch, as comparable values."""
    state = state_here()
    for channel in live():
        for name, value in channel.ask("state").items():
            state[name] = (state.get(name), value)
    return state


def changed_since(before: dict[str, Any]) -> list[str]:
    """What differs from an earlier `global_state`. What was not loaded then cannot have been changed."""
    return sorted(name for name, value in global_state().items() if value != before.get(name, value))


def bytecodes(call: Callable[[], Any]) -> int:
    """Python bytecodes executed by a call.

    The call is made twice and counted the second time: Python 3.12 reports opcodes only from the next start
    of tracing on, Python 3.13 only from the next call of the same code on (seen with 3.12.1 and 3.13.0).
    """

    def both() -> int:
        bytecodes_here(call)
        return bytecodes_here(call)[0]

    return _counted("bytecodes", both, call)


def flops(call: Callable[[], Any]) -> int:
    """Floating-point operations of a call as torch counts them; 0 where it sees none."""
    return _counted("flops", lambda: flops_here(call)[0], call)


def _counted(what: str, here: Callable[[], int], call: Callable[[], Any]) -> int:
    """Counted where the call ends up; `here` where it asks no sealed process."""
    if not live():
        return here()
    before = [channel.questions for channel in live()]
    for channel in live():
        channel.ask("watch", what)
    call()
    call()
    found = [channel.ask("watch", "") for channel in live()]
    asked = [channel.questions - start for channel, start in zip(live(), before)]
    return next((count for count, n in zip(found, asked) if n > 2), None) or here()
