"""The same question for another architecture: a table, not a copy.

    asks(LANGUAGE_MODEL, {
        "M9.6": ("M5.6",),                                # every property of M5.6
        "M9.9": ("labels_are_the_input_shifted_by_one",),  # this property only
    })

stands in a module of a milestone's `properties`. Cases that are drawn become cases of that architecture, and
a property that takes an `architecture` gets it. The property and its profiles stay as they are; its effort
does unless a share of it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attest.contract import Architecture
from attest.contract.architectures import known
from attest.judging.architectures import drawn_for

if TYPE_CHECKING:
    from attest.judging.property import Property


@dataclass(frozen=True)
class Asked:
    """One line of a table: the criterion asks of the architecture what these ids or names ask."""

    criterion: str
    architecture: Architecture
    sources: tuple[str, ...]
    effort: float = 1.0


_waiting: list[Asked] = []


def asks(architecture: Architecture, table: Mapping[str, Sequence[str]], effort: float = 1.0) -> None:
    """For each criterion of the table, the ids of criteria or the names of properties that it asks.

    `effort` is how many cases are drawn, as a share of those of the property.
    """
    known(architecture)
    for criterion, sources in table.items():
        if isinstance(sources, str):
            raise TypeError(f"{criterion} asks {sources!r}; give a tuple of criterion ids or property names")
        _waiting.append(Asked(criterion, architecture, tuple(sources), effort))


def resolve(registry: Mapping[str, Sequence[Property]], register: Callable[[Property], None]) -> None:
    """Register what the tables ask, once every milestone has been imported."""
    while _waiting:
        asked = _waiting.pop(0)
        for source in asked.sources:
            for property in _found(registry, source, asked.criterion):
                register(put_to(property, asked.architecture, asked.criterion, asked.effort))


def put_to(property: Property, architecture: Architecture, criterion: str, effort: float = 1.0) -> Property:
    """The property as another criterion asks it of another architecture."""
    return replace(
        property,
        criterion=criterion,
        effort=property.effort * effort,
        strategies={n: drawn_for(s, architecture) for n, s in property.strategies.items()},
        fixed={n: architecture if n == "architecture" else value for n, value in property.fixed.items()},
    )


def _found(registry: Mapping[str, Sequence[Property]], source: str, criterion: str) -> list[Property]:
    if source in registry:
        return list(registry[source])
    for properties in registry.values():
        if named := [p for p in properties if p.name == source]:
            return named[:1]  # a property of several criteria is one question
    raise ValueError(f"{criterion} asks {source!r}, which is no criterion with properties and no property; "
                     "correct the table")  # fmt: skip
