"""Attest: a conformance kit for Transformer implementations.

Public are the names listed here, the manual in `attest.contract`, and the adapters in `attest.adapters`.
A plugin that adds a milestone also uses `attest.properties` and `attest.checks`. Everything else is internal
and may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attest.contract import (
        Component,
        Config,
        Form,
        Gradients,
        Implementation,
        Kind,
        KnownFailure,
        Milestone,
        Operation,
        Port,
        ShapePolicy,
        hookimpl,
    )

__version__ = "0.1.0"
__all__ = [
    "Component",
    "Config",
    "Form",
    "Gradients",
    "Implementation",
    "Kind",
    "KnownFailure",
    "Milestone",
    "Operation",
    "Port",
    "ShapePolicy",
    "hookimpl",
]


def __getattr__(name: str) -> Any:
    """What a plugin imports from here is loaded on first use: pytest imports this package everywhere."""
    if name not in __all__:
        raise AttributeError(f"module 'attest' has no attribute {name!r}")
    from attest import contract

    return getattr(contract, name)
