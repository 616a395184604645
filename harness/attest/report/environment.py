"""Where a run happened, as far as it can change a number: versions and platform, no host, path or time."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from attest.machine import emulated_cuda

PACKAGES = ("numpy", "torch", "hypothesis")


@cache
def _environment() -> tuple[tuple[str, str | None], ...]:
    versions = [(name, _version(name)) for name in PACKAGES]
    return (
        ("python", platform.python_version()),
        *versions,
        ("system", platform.system()),
        ("machine", platform.machine()),
    )


def environment() -> dict[str, str | None]:
    """Versions of what computes, None for what is not installed; and whether a CUDA device was emulated."""
    emulated = emulated_cuda()
    return dict(_environment()) | ({"cuda": emulated} if emulated else {})


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
