"""What a plugin brings with a milestone. The milestones of this package are brought the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Milestone:
    """A spec file and the code that belongs to it. Only the spec file is required.

    `properties`, `defects` and `variants` each name a module, or a package of which every module is loaded.
    `operations` are records of operations that the contract does not have yet.
    """

    spec: str | Path
    properties: str = ""
    defects: str = ""
    variants: str = ""
    operations: Sequence[Any] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", Path(self.spec).resolve())
        object.__setattr__(self, "operations", tuple(self.operations))

    @property
    def file(self) -> Path:
        """The spec file, as an absolute path."""
        return Path(self.spec)

    @property
    def operation_names(self) -> tuple[str, ...]:
        """The names of its operations. Across processes an operation is sent as its name."""
        return tuple(o if isinstance(o, str) else str(o.name) for o in self.operations)

    def part(self, name: str) -> str:
        """The module or package of `properties`, `defects` or `variants`; empty where it has none."""
        return str(getattr(self, name))
