"""What can be seen of a process from within: its random state and flags, and what a call costs.

Known to both sides: these functions run in the process in which an implementation runs.
"""

from __future__ import annotations

import gc
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

# Looked at once they are loaded: loading them takes a second, which only those who compile should pay.
COMPILER_SETTINGS = (
    "torch._dynamo.config",
    "torch._functorch.config",
    "torch._inductor.config",
    "torch.fx.experimental._config",
)


def stir_here() -> None:
    """Draw from the global generators, so that one which a call seeds anew is seen to change."""
    np.random.random()
    random.random()
    if torch := sys.modules.get("torch"):
        torch.rand(1)


def state_here() -> dict[str, Any]:
    """The global state an implementation may not touch, as comparable values."""
    numpy_state: Any = np.random.get_state()
    state: dict[str, Any] = {
        "numpy's random state": (str(numpy_state[0]), _bytes(numpy_state[1]), *map(str, numpy_state[2:])),
        "Python's random state": hash(random.getstate()),
        "numpy's error handling": tuple(sorted(np.geterr().items())),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        state |= {
            "torch's random state": _bytes(torch.get_rng_state().numpy()),
            "torch's default dtype": str(torch.get_default_dtype()),
            "torch's gradient mode": torch.is_grad_enabled(),
            "torch's number of threads": torch.get_num_threads(),
            "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
            "torch's precision of products": _precision(torch),
        }
    for name in COMPILER_SETTINGS:
        if name in sys.modules:
            state[f"settings of {name}"] = _settings(sys.modules[name])
    return state


def _settings(config: Any) -> int:
    """A number for all of them. Each asking copies them, so where a copy lies in memory says nothing."""
    return hash(re.sub(r" at 0x[0-9a-f]+", "", repr(config.get_config_copy())))


def _precision(torch: Any) -> tuple[str, ...]:
    """What decides in how many digits torch multiplies, on a processor and on a GPU."""
    flags = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    return (torch.get_float32_matmul_precision(), *map(str, flags))


def _bytes(array: Any) -> bytes:
    return np.asarray(array).tobytes()


def bytecodes_here(call: Callable[[], Any]) -> tuple[int, Any]:
    """Python bytecodes executed by a call, and its result: a profile hook misses loops over operators.

    The garbage collector is switched off meanwhile: finalisers of other code's objects would be counted too.
    """
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            count += 1
        return trace

    previous, collecting = sys.gettrace(), gc.isenabled()
    gc.disable()
    try:
        sys.settrace(trace)
        result = call()
        sys.settrace(None)
    finally:
        sys.settrace(previous)
        if collecting:
            gc.enable()
    return count, result


def flops_here(call: Callable[[], Any]) -> tuple[int, Any]:
    """Floating-point operations of a call as torch counts them, and its result; 0 where it sees none."""
    if "torch" not in sys.modules:
        return 0, call()
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        result = call()
    return int(counter.get_total_flops()), result
