"""Options an implementation may leave out: a case takes the first form that its builder accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

from attest.boundary import JudgedImplementation
from attest.contract import OPERATIONS, Config
from attest.contract.config import OPTIONS, RULES, default_of
from attest.outcomes import NotClaimed, NotOffered, Violation
from attest.spelling import config_from

OTHER_ACTIVATION = {"relu": "gelu", "gelu": "relu"}


def options_of(operation: str) -> tuple[str, ...]:
    """Every option that an operation reads."""
    return tuple(name for name in OPTIONS if name in OPERATIONS[operation].reads)


def written_options(options: Mapping[str, Any]) -> str:
    """Options as one word of a case's line, without those of the model of 2017: positions:rotary,window:3."""
    return ",".join(
        f"{name}:{str(value).lower() if value is None or isinstance(value, bool) else value}"
        for name, value in options.items()
        if value != default_of(name)
    )


def read_options(word: str) -> dict[str, Any]:
    """The inverse; UsageError where a name or a value is unknown."""
    pairs = [part.replace(":", "=", 1) for part in word.split(",") if part]
    config = config_from(pairs)
    names = [pair.partition("=")[0] for pair in pairs]
    return {name: getattr(config, name) for name in names}


def fitting(options: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """The options with numbers that must divide a field of the config made to: the largest that does.

    Of a head that has no even part of this size to turn, the whole is turned.
    """
    made = dict(options)
    for name, value in options.items():
        whole = getattr(config, RULES[name].divides) if RULES[name].divides else 0
        if whole and value is not None:
            made[name] = next(n for n in range(min(value, whole), 0, -1) if whole % n == 0)
    if "rotary_fraction" in made and (made["rotary_fraction"] * config.but(**made).d_head) % 2:
        made["rotary_fraction"] = 1.0
    return made


def picked_options(
    impl: JudgedImplementation,
    operation: str,
    free: Sequence[str],
    pick: int,
    config: Config,
    wanted: Mapping[str, Any],
    most: int = 0,
    ends: bool = False,
) -> dict[str, Any]:
    """The row that `pick` takes of the claimed combinations of the free options, made to fit the config.

    `most`: only so many rows, and few of them, for an implementation that pays for every config; `ends`: of
    these the first and the last, all options changed and none. NotClaimed where no combination holds what is
    wanted.
    """
    rows = impl.claims.rows(operation, free, wanted, few=bool(most))[: None if ends else most or None]
    rows = (*rows[:1], *rows[-1:]) if ends else rows
    if not rows:
        told = ", ".join(f"{name}={value}" for name, value in wanted.items())
        raise NotClaimed(f"{operation} with {told} is not claimed")
    return fitting(rows[(pick - 1) % len(rows)], config)


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
