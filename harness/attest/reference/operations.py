"""From an operation's name and inputs to the formula that computes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attest.contract import operation_of
from attest.reference.assembly import Parts
from attest.reference.models import maps as maps  # registers a formula
from attest.reference.parts.part import FORMULAS, FUNCTIONS, Inputs, Outputs
from attest.reference.scope import Scope


def run(parts: Parts, operation: str, p: Scope, inputs: Inputs) -> Outputs:
    """The named outputs of one operation."""
    return dict(_registered(FORMULAS, operation)(parts, p, inputs))


def run_function(parts: Parts, operation: str, args: Sequence[Any], **settings: Any) -> Any:
    """The answer of one of the contract's plain functions: positional arguments in, one array out."""
    return _registered(FUNCTIONS, operation)(parts, *args, **settings)


def _registered(known: dict[str, Any], operation: str) -> Any:
    """The reference's own formula, or that of an operation which a plugin brings."""
    found = known.get(operation) or operation_of(operation).formula
    if found is None:
        raise ValueError(f"operation={operation!r} has no formula; give its record one")
    return found
