"""What this machine has."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def cuda_available() -> bool:
    """Whether torch sees a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def emulated_cuda() -> str:
    """What a CUDA device that is emulated on this machine says about itself; empty where there is none."""
    torch = sys.modules.get("torch")
    return str(getattr(torch.cuda, "emulated", "")) if torch is not None else ""


# What makes one processor of a kind faster than another at products, as Linux names it.
FAST = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimddp", "bf16", "sve")


def processor() -> str:
    """The processor and those of its instructions that decide how fast it multiplies, as far as it says."""
    try:
        said = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return f"{platform.processor() or platform.machine()}, instructions unknown"
    lines = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in lines.items()}
    has = set(fields.get("flags", fields.get("Features", "")).split())
    name = fields.get("model name", platform.machine())
    instructions = " ".join(one for one in FAST if one in has) or "instructions unknown"
    return f"{name}, {os.cpu_count()} cores, {instructions}"


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
        if need == "cuda" and emulated_cuda():  # it shows much, and not what this asks
            return "the CUDA device is emulated, and a real one is needed"
    return ""


def interprets_triton() -> bool:
    """Whether Triton's kernels run in its interpreter, without a GPU; Triton reads the same variable."""
    asked = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")
    return asked and importlib.util.find_spec("triton") is not None
