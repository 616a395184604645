"""What every part is: a small class that knows its config and, through `parts`, its siblings.

A part is written so that a defect overrides one method of one class. `formula` and
`function` bind an operation of the contract to the part that computes it, in the part's own module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attest.contract import Config
from attest.reference.scope import Scope
from attest.reference.tape import Var

if TYPE_CHECKING:
    from attest.reference.assembly import Parts

Inputs = Mapping[str, Any]  # Vars where floating, arrays and flags otherwise
Outputs = dict[str, Var]
Formula = Callable[["Parts", Scope, Inputs], Outputs]

FORMULAS: dict[str, Formula] = {}
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # of the parts and the positional arguments


class Part:
    """One piece of the model, of training or of decoding."""

    def __init__(self, config: Config, parts: Parts) -> None:
        self.config, self.parts = config, parts

    @property
    def noise(self) -> np.random.Generator | None:
        """The component's source of dropout; None in evaluation."""
        return self.parts.noise


def formula(operation: str) -> Callable[[Formula], Formula]:
    """Register the function that computes the named outputs of an operation."""

    def register(compute: Formula) -> Formula:
        assert operation not in FORMULAS, f"two formulas compute {operation}"
        FORMULAS[operation] = compute
        return compute

    return register


def function(operation: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what answers an operation that is a plain function."""

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        assert operation not in FUNCTIONS, f"two functions compute {operation}"
        FUNCTIONS[operation] = compute
        return compute

    return register
