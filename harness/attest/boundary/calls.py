"""Calls that an implementation answered, kept while diagnosis listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attest.contract import Arrays, Config


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
