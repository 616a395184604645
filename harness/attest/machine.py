"""What this machine has."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version


def cuda_available() -> bool:
    """Whether torch sees a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def visible_gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES names, or the numbers of all devices that torch sees."""
    if not cuda_available():
        return []
    import torch

    count = int(torch.cuda.device_count())
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return named[:count] or [str(i) for i in range(count)]


def versions_of(packages: Iterable[str]) -> str:
    """Installed packages with their versions, as in "keras 3.15.1, jax 0.10.2"."""
    return ", ".join(f"{name} {_version(name)}" for name in packages)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def lacking(needs: Iterable[str]) -> str:
    """Why this machine cannot judge what has these needs; empty where it can."""
    for need in needs:
        if need == "torch" and importlib.util.find_spec("torch") is None:
            return "torch is not installed; install attest-transformers[torch]"
        if need == "cuda" and not cuda_available():
            return "no CUDA device is present"
    return ""
