"""Known-bad implementations, named for their sin, and correct variants that must live.

    @defect("M1.2", "M1.10")
    class no_scale(Attention):
        \"\"\"Scores are not divided by sqrt(d_k).\"\"\"

        def scale(self, scores, q, k, where):
            return scores

A defect is the reference with one class exchanged: a part, the component, transformer, trainer, optimizer,
generator or the implementation itself; its base class says which. The ids are the criteria that must each
kill it on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, TypeVar

from attest.milestone_registry import load_parts
from attest.reference.component import ReferenceComponent
from attest.reference.decoding.generator import ReferenceGenerator
from attest.reference.implementation import ReferenceImplementation
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.parts.part import Part
from attest.reference.training.trainer import ReferenceOptimizer, ReferenceTrainer

Class = TypeVar("Class", bound=type[Any])


@dataclass(frozen=True)
class Defect:
    """One known fault, and the criteria that must find it."""

    name: str
    sin: str
    killers: tuple[str, ...]
    piece: type[Any]
    also: tuple[type[Part], ...] = ()  # further parts, where one class cannot hold it

    @property
    def milestone(self) -> str:
        """The milestone of the first criterion that names it."""
        return self.killers[0].partition(".")[0]

    def build(self) -> Any:
        """A fresh implementation with this defect."""
        return assemble(self.piece, self.name, *self.also)


@dataclass(frozen=True)
class Variant:
    """A correct implementation that looks unusual; every criterion of its milestones must pass it."""

    name: str
    what: str
    milestones: tuple[str, ...]
    piece: type[Any]
    spared: tuple[str, ...] = ()  # criteria it is right to fail
    also: tuple[type[Part], ...] = ()  # further parts, where one class cannot hold it

    def build(self) -> Any:
        """A fresh implementation."""
        return assemble(self.piece, self.name, *self.also)


_defects: dict[str, Defect] = {}
_variants: dict[str, Variant] = {}


def defect(*killers: str) -> Callable[[Class], Class]:
    """Register a class as a defect that each of these criteria kills."""

    def register(piece: Class) -> Class:
        name = piece.__name__
        assert name not in _defects, f"two defects are named {name}"
        assert killers, f"{name} needs a criterion that names it"
        _defects[name] = Defect(name, cleandoc(piece.__doc__ or ""), killers, piece)
        return piece

    return register


def variant(
    *milestones: str, spared: tuple[str, ...] = (), also: tuple[type[Part], ...] = ()
) -> Callable[[Class], Class]:
    """Register a class as a correct variant of these milestones, except for the criteria it is spared."""

    def register(piece: Class) -> Class:
        name = piece.__name__
        assert name not in _variants, f"two variants are named {name}"
        _variants[name] = Variant(name, cleandoc(piece.__doc__ or ""), milestones, piece, spared, also)
        return piece

    return register


def assemble(piece: type[Any], name: str, *also: type[Part]) -> Any:
    """The reference implementation with one class exchanged, and rarely with further parts."""
    if issubclass(piece, Part):
        return ReferenceImplementation(piece, *also, name=name)
    for kinds in ("models", "writers"):
        rows = getattr(ReferenceImplementation, kinds)
        exchanged_rows = tuple(piece if issubclass(piece, row) else row for row in rows)
        if exchanged_rows != rows:
            return type(name, (ReferenceImplementation,), {kinds: exchanged_rows})(name=name)
    slots: dict[type[Any], str] = {
        ReferenceTransformer: "transformer",
        ReferenceGenerator: "generator",
        ReferenceTrainer: "trainer",
        ReferenceOptimizer: "optimizer",
        ReferenceComponent: "component",
    }
    for base, slot in slots.items():
        if issubclass(piece, base):
            exchanged: dict[str, Any] = {slot: piece}
            return ReferenceImplementation(name=name, **exchanged)
    assert issubclass(piece, ReferenceImplementation), f"{name} replaces no piece of the reference"
    return piece(name=name)


def defects() -> Mapping[str, Defect]:
    """Every defect by name."""
    load_parts("defects", "variants")
    return _defects


def variants() -> Mapping[str, Variant]:
    """Every correct variant by name."""
    load_parts("defects", "variants")
    return _variants


def killed_by(criterion: str) -> list[Defect]:
    """The defects that name this criterion, those of its milestone first."""
    milestone = criterion.partition(".")[0]
    found = [d for d in defects().values() if criterion in d.killers]
    return sorted(found, key=lambda d: d.milestone != milestone)
