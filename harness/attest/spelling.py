"""Names a person types: the nearest known one, and configs written as name=value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from attest.contract import Config
from attest.registry import UsageError, printable

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def nearest(word: str, known: Iterable[str]) -> str:
    """A remedy: the nearest known name, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, 1, 0.5)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"


def config_from(pairs: Iterable[str]) -> Config:
    """A config from words such as d_model=16; UsageError for an unknown name or a value of another kind."""
    defaults = {f.name: f.default for f in fields(Config) if f.name != "options"}
    changes = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in defaults:
            raise UsageError(f"{printable(pair)} is not a field of the config; {nearest(name, defaults)}")
        changes[name] = _value(name, text, defaults[name])
    return Config(**changes)


def _value(name: str, text: str, default: Any) -> Any:
    kind = int if default is None else type(default)  # d_ff alone defaults to None
    try:
        return _BOOLEANS[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        wanted = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        example = f"{name}={1 if default is None else default}"
        raise UsageError(f"{name}={printable(text)!r} is not {wanted}; write for example {example}") from None
