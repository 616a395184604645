"""Options an implementation may leave out: a case takes the first form that its builder accepts."""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar

from attest.boundary import JudgedImplementation
from attest.contract import Config
from attest.outcomes import NotOffered, Violation

OTHER_ACTIVATION = {"relu": "gelu", "gelu": "relu"}


class Configured(Protocol):
    """A case with a config."""

    @property
    def config(self) -> Config: ...

    def but(self, **changes: Any) -> Self: ...


Chosen = TypeVar("Chosen", bound=Configured)


def takes(impl: JudgedImplementation, operation: str, config: Config) -> bool:
    """Whether the builder has these options. One that breaks has them: its criterion will tell."""
    try:
        impl.build(operation, config)
    except NotOffered:
        return False
    except Violation:
        return True
    return True


def first_offered(
    impl: JudgedImplementation, operation: str, case: Chosen, *changes: dict[str, Any]
) -> Chosen:
    """The case itself, or the first change of it that is offered; the case where none is."""
    for change in ({}, *changes):
        tried = case.but(**change)
        if takes(impl, operation, tried.config):
            return tried
    return case


def offered_form(impl: JudgedImplementation, operation: str, config: Config) -> Config:
    """The config, or one with the other activation where only that is offered."""
    other = config.but(activation=OTHER_ACTIVATION[config.activation])
    return other if not takes(impl, operation, config) and takes(impl, operation, other) else config


def sharpest(impl: JudgedImplementation, case: Chosen) -> Chosen:
    """The case in the implementation's most exact dtype."""
    return case.but(dtype=impl.sharpest)
