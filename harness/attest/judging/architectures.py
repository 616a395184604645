"""Cases of a whole model: which architecture they are of is part of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

from attest.contract import ENCODER_DECODER, Architecture
from attest.contract.architectures import architecture_named
from attest.judging.cases import Case


@dataclass(frozen=True, kw_only=True)
class ArchitectureCase(Case):
    """Drawn for the encoder-decoder; `of` makes the same sizes, options and seed a case of another."""

    architecture: Architecture = ENCODER_DECODER

    def __post_init__(self) -> None:
        if isinstance(self.architecture, str):  # as a printed line gives it
            object.__setattr__(self, "architecture", architecture_named(self.architecture))

    def of(self, architecture: Architecture) -> Self:
        """This case put to another architecture."""
        return self.but(architecture=architecture)


class Drawable(Protocol):
    """A strategy of Hypothesis."""

    def map(self, pack: Any) -> Any: ...


def drawn_for(strategy: Drawable, architecture: Architecture) -> Any:
    """A strategy whose cases are of this architecture; numbers, words and other cases stay as they are."""
    return strategy.map(
        lambda drawn: drawn.of(architecture) if isinstance(drawn, ArchitectureCase) else drawn
    )
