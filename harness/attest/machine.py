"""What this machine has."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable


def cuda_available() -> bool:
    """Whether torch sees a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def lacking(needs: Iterable[str]) -> str:
    """Why this machine cannot judge what has these needs; empty where it can."""
    for need in needs:
        if need == "torch" and importlib.util.find_spec("torch") is None:
            return "torch is not installed; install attest-transformers[torch]"
        if need == "cuda" and not cuda_available():
            return "no CUDA device is present"
    return ""
