"""From an operation's name and keyword inputs to the formula that computes it."""

from __future__ import annotations

from attest.contract import Config
from attest.contract.parameters import Shapes, shapes
from attest.reference.assembly import Parts
from attest.reference.parts.part import FORMULAS, Inputs, Outputs
from attest.reference.scope import Scope

# inputs that lie on the tape; the others are ids, masks and flags
FLOATING = frozenset({"q", "k", "v", "x", "query", "key_value", "memory", "logits"})


def parameter_shapes(operation: str, config: Config) -> Shapes:
    """As `attest.parameters.shapes`; encode and decode have those of the transformer."""
    return shapes("transformer" if operation in ("encode", "decode") else operation, config)


def run(parts: Parts, operation: str, p: Scope, inputs: Inputs) -> Outputs:
    """The named outputs of one operation."""
    return FORMULAS[operation](parts, p, inputs)
