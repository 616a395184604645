"""How often code reads a number off a tensor. On a GPU each time waits until everything before it has run.

Counted on a CPU with real numbers and without compiling: a stop flag on tensors without numbers, as
placement.py has them, would end what is counted at the first look. A counter that lies on the CPU in any case
is counted too; a Python number is the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# What gives a number or a shape that depends on numbers; multinomial looks at what it is given.
READING = frozenset(
    {
        *(torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.__float__, torch.Tensor.__index__),
        *(
            torch.Tensor.item,
            torch.Tensor.tolist,
            torch.Tensor.numpy,
            torch.Tensor.__array__,
            torch.Tensor.cpu,
        ),
        *(
            torch.nonzero,
            torch.Tensor.nonzero,
            torch.argwhere,
            torch.Tensor.argwhere,
            torch.equal,
            torch.Tensor.equal,
        ),
        *(torch.masked_select, torch.Tensor.masked_select, torch.unique, torch.Tensor.unique),
        *(torch.multinomial, torch.Tensor.multinomial, torch.allclose, torch.Tensor.allclose),
    }
)


class _Counter(TorchFunctionMode):  # type: ignore[misc]
    count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        chosen = func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and _by_truth(args[1])
        self.count += func in READING or chosen
        return func(*args, **(kwargs or {}))


def _by_truth(index: Any) -> bool:
    """Whether what an index selects depends on the numbers in it."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(torch.is_tensor(part) and part.dtype == torch.bool for part in parts)


def reads_of_numbers(call: Callable[[], Any]) -> int:
    """How many there are in a call."""
    with torch.compiler.set_stance("force_eager"), _Counter() as counter:
        call()
    return int(counter.count)
