"""Names a person types: the nearest known one, and configs written as name=value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from attest.contract import Config
from attest.contract.config import RULES, Holds, Rule
from attest.registry import UsageError, printable

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WANTED: dict[type[Any], str] = {int: "a whole number", float: "a number", bool: "true or false"}


def nearest(word: str, known: Iterable[str]) -> str:
    """A remedy: the nearest known name, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, 1, 0.5)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"


def config_from(pairs: Iterable[str]) -> Config:
    """A config from words such as d_model=16; UsageError for an unknown name or a value of another kind."""
    known = [name for name, rule in RULES.items() if rule.holds is not Holds.OPTIONS]
    changes = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in known:
            raise UsageError(f"{printable(pair)} is not a field of the config; {nearest(name, known)}")
        if name in changes:
            raise UsageError(f"{name} is given twice; leave one of them out")
        changes[name] = _value(name, text, RULES[name])
    return Config(**changes)


def _value(name: str, text: str, rule: Rule) -> Any:
    kind = rule.holds.type
    if rule.optional and text.lower() == "none":
        return None
    try:
        value = _BOOLEANS[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        value = None
    if value is None or not _fits(value, rule):
        default = getattr(Config(), name)
        wanted = f"one of {', '.join(rule.choices)}" if rule.choices else _wanted(rule)
        raise UsageError(
            f"{name}={printable(text)[:40]!r} is not {wanted}; write for example {name}={default or 1}"
        )
    return value


def _wanted(rule: Rule) -> str:
    """In the words of what the field holds, where it has any."""
    said = rule.holds.value.partition(": ")[2] if rule.checked else ""
    return said if said.startswith("a ") else _WANTED.get(rule.holds.type, "a word")


def _fits(value: Any, rule: Rule) -> bool:
    """Whether a value of the right type is one that the field may hold by itself."""
    if rule.choices:
        return value in rule.choices
    at_least = {Holds.SIZE: 1, Holds.COUNT: 0, Holds.ID: 0}.get(rule.holds)
    return not rule.checked or at_least is None or value >= at_least
