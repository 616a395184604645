"""Parameters on the tape, seen from inside one part of the model."""

from __future__ import annotations

from collections.abc import Mapping

from attest.reference.tape import Var


class Scope:
    """A mapping of canonical names to Vars, read under a prefix: `scope.at("encoder.0")["norm0.weight"]`."""

    __slots__ = ("prefix", "values")

    def __init__(self, values: Mapping[str, Var], prefix: str = "") -> None:
        self.values, self.prefix = values, prefix

    def __getitem__(self, name: str) -> Var:
        return self.values[self.prefix + name]

    def get(self, name: str) -> Var | None:
        """The Var, or None where the model has no such parameter (a bias switched off)."""
        return self.values.get(self.prefix + name)

    def at(self, part: str) -> Scope:
        """The same parameters seen from inside `part`."""
        return Scope(self.values, f"{self.prefix}{part}.")
