"""What is here for the speed of a CPU alone, behind an option: `--impl compiled,cpu_kernels=off`.

    auto    the default: what is known to help here
    on      all of it, wherever it runs
    off     inductor's own code and nothing else

Known means measured, and the measurement is said where the code is: kernels.py is for one version of torch,
whatever the processor; product.py, few_rows.py and single.py are for processors with AVX2 or AVX-512, as
torch names them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from attest.contract import Config

from .. import private_torch

OPTION = "cpu_kernels"
AUTO, ON, OFF = "auto", "on", "off"
MEASURED_ON = ("AVX2", "AVX512")


def chosen(config: Config) -> str:
    """auto, on or off, as the options of the config say."""
    value = dict(config.options).get(OPTION, AUTO)
    if value not in (AUTO, ON, OFF):
        raise ValueError(f"{OPTION}={value!r} is unknown; choose one of {AUTO}, {ON}, {OFF}")
    return value


def in_one_file(choice: str) -> bool:
    """Whether the C++ kernels of a graph are compiled together. Another version of torch has other names."""
    return choice != OFF and private_torch.is_known()


def kernels_together(options: tuple[tuple[str, Any], ...], wanted: bool) -> AbstractContextManager[None]:
    """One C++ file for each graph that is compiled inside, where wanted; elsewhere one for each kernel."""
    if not wanted:
        return nullcontext()
    from . import kernels

    return kernels.in_one_file(options)


def helps(choice: str) -> bool:
    """Whether steps of one token are written in the ways of this folder."""
    measured = torch.backends.cpu.get_cpu_capability() in MEASURED_ON
    return (choice == ON or (choice == AUTO and measured)) and private_torch.is_known()


def single_steps(choice: str, weight: Tensor) -> bool:
    """Whether a transformer's step is read_one of single.py; low precision would round every product."""
    whole = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
    return whole and helps(choice)
