"""Cases of a whole model: which architecture they are of is part of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from attest.boundary import JudgedImplementation
from attest.contract import ENCODER_DECODER, Architecture, Config
from attest.contract.architectures import architecture_named
from attest.judging.cases import Case
from attest.judging.options import options_of, picked_options, read_options, written_options


@dataclass(frozen=True, kw_only=True)
class ArchitectureCase(Case):
    """Drawn for the encoder-decoder; `of` makes the same sizes, options and seed a case of another.

    Where the architecture has options, `pick` takes a row of those that are claimed, as in `OperationCase`,
    and fitting writes it into `options` and into the fields of the case that are options themselves.
    """

    own_options: ClassVar[Mapping[str, str]] = {}  # fields of the case, and the options that they are
    widens: ClassVar[str] = ""  # the field that makes heads wider
    # Rows of options where every config costs a build: each is a step of training and four of writing.
    most_rows: ClassVar[int] = 2

    architecture: Architecture = ENCODER_DECODER
    pick: int = 0  # 0: the options are those that are written
    options: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.architecture, str):  # as a printed line gives it
            object.__setattr__(self, "architecture", architecture_named(self.architecture))

    def of(self, architecture: Architecture) -> Self:
        """This case put to another architecture; the seed picks its options."""
        return self.but(architecture=architecture, pick=1 + self.seed if architecture.optional else 0)

    @property
    def config(self) -> Config:
        """What the builders get."""
        raise NotImplementedError

    @property
    def chosen_config(self) -> Config:
        """The config before anything is computed with it."""
        return self.config

    @property
    def wanted(self) -> dict[str, Any]:
        """The options that the case does not leave open."""
        return {}

    def with_options(self, config: Config) -> Config:
        """A config with the options that were picked; one table for both sides has one vocabulary."""
        chosen = config.but(**read_options(self.options))
        return chosen.but(source_vocab=chosen.target_vocab) if chosen.share_embeddings else chosen

    def fitted(self, impl: JudgedImplementation) -> Self:
        """Also with options that are claimed, where the architecture has some."""
        case = super().fitted(impl)
        if not self.architecture.optional or not (self.pick or self.unclaimed(impl)):
            return case
        plain, operation = case.but(pick=0, options=""), self.architecture.operation
        free = options_of(operation)
        config, most = plain.chosen_config, self.most_rows if case.fixed else 0
        wanted = {**case.wanted, **dict(self.architecture.always)}
        row = picked_options(impl, operation, free, max(self.pick, 1), config, wanted, most)
        own = {name: row.pop(option) for name, option in self.own_options.items() if option in row}
        return plain.but(options=written_options(row), **own).turnable()

    def unclaimed(self, impl: JudgedImplementation) -> bool:
        """Whether a case that was not drawn has options that the implementation does not claim."""
        return bool(impl.claims.outside(self.architecture.operation, self.chosen_config))

    def turnable(self) -> Self:
        """With heads that have an even number of features to turn, where they are turned."""
        config = self.chosen_config
        odd = config.positions == "rotary" and (config.d_head * config.rotary_fraction) % 2
        return self.but(**{self.widens: 2 * getattr(self, self.widens)}).turnable() if odd else self


class Drawable(Protocol):
    """A strategy of Hypothesis."""

    def map(self, pack: Any) -> Any: ...


def drawn_for(strategy: Drawable, architecture: Architecture) -> Any:
    """A strategy whose cases are of this architecture; numbers, words and other cases stay as they are."""
    return strategy.map(
        lambda drawn: drawn.of(architecture) if isinstance(drawn, ArchitectureCase) else drawn
    )
