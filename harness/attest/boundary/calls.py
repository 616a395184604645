"""Calls that an implementation answered, kept while diagnosis listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attest.contract import ENCODER_DECODER, Architecture, Arrays, Config

if TYPE_CHECKING:
    from attest.boundary.training import JudgedTrainer


@dataclass(frozen=True)
class Call:
    """One call an implementation answered, complete enough to be put to another one."""

    operation: str
    config: Config | None  # None: one of the plain functions
    method: str
    inputs: Mapping[str, Any]
    parameters: Arrays | None
    seed: int | None
    outputs: Arrays | None  # None: it raised, or what it gave could not be read
    raised: str = ""  # the class of the exception


@dataclass(frozen=True, kw_only=True)
class Run(Call):
    """A trainer's steps so far as one call: what they were given, and where the last one has led.

    The outputs are those of `JudgedTrainer.outcome`. `trainer` can make further steps, which change the run.
    """

    batches: tuple[Arrays, ...]
    trainer: JudgedTrainer = field(repr=False, compare=False)
    architecture: Architecture = ENCODER_DECODER
