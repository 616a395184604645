"""Attest: a conformance kit for Transformer implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attest.contract.milestones import Milestone as Milestone

__version__ = "0.1.0"
__all__ = ["Milestone"]


def __getattr__(name: str) -> Any:
    """What a plugin imports from here is loaded on first use: pytest imports this package everywhere."""
    if name not in __all__:
        raise AttributeError(f"module 'attest' has no attribute {name!r}")
    from attest import contract

    return getattr(contract, name)
