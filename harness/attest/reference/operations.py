"""From an operation's name and inputs to the formula that computes it."""

from __future__ import annotations

from typing import Any

from attest.contract import operation_of
from attest.reference.assembly import Parts
from attest.reference.parts.part import FORMULAS, Formula, Inputs, Outputs
from attest.reference.scope import Scope


def run(parts: Parts, operation: str, p: Scope, inputs: Inputs) -> Outputs:
    """The named outputs of one operation."""
    return dict(formula_of(operation)(parts, p, inputs))


def run_function(parts: Parts, operation: str, *args: Any, **settings: Any) -> Any:
    """The answer of one of the plain functions."""
    return formula_of(operation)(parts, *args, **settings)


def formula_of(operation: str) -> Formula:
    """The reference's formula, or the one that a plugin's record brings."""
    formula = FORMULAS.get(operation) or operation_of(operation).formula
    if formula is None:
        raise ValueError(f"operation={operation!r} has no formula; give its record one")
    return formula
