"""What this machine has."""

from __future__ import annotations

import importlib.util


def cuda_available() -> bool:
    """Whether torch sees a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())
