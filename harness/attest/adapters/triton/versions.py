"""The one version of Triton whose interpreter and compiler were read; another is refused in one sentence."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from attest.registry import BrokenPlugin

TRITON = "3.7.1"  # the version that torch 2.13 asks for
REMEDY = f"install triton=={TRITON} (pip install 'attest-transformers[triton]')"


class WrongVersion(BrokenPlugin):
    """Triton is missing, or it is another version than the one that was read."""


def require_triton(purpose: str) -> None:
    """WrongVersion with a whole sentence, unless exactly this version is installed."""
    try:
        found = version("triton")
    except PackageNotFoundError:
        raise WrongVersion(f"triton is not installed and {purpose} needs it; {REMEDY}") from None
    if found.partition("+")[0] != TRITON:
        raise WrongVersion(f"triton=={found} is installed and {purpose} was written for {TRITON}; {REMEDY}")
