"""Whether a value may stand in a field of the config: for configs that somebody else wrote.

A builder refuses what makes no sense for its operation. Here a value is looked at by itself, before anything
is computed from it: a text where a number belongs fails far away, and blames who is not at fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from attest.contract.config import RULES, Holds, Rule

LARGEST = 2**31  # no size, id or number of steps reaches it


def _whole(value: Any) -> bool:
    return type(value) is int and abs(value) < LARGEST


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < math.inf  # NaN is not below anything


_FITS: Mapping[Holds, Callable[[Any, Rule], bool]] = {
    Holds.SIZE: lambda value, rule: _whole(value) and value >= 1,
    Holds.COUNT: lambda value, rule: _whole(value) and value >= 0 if rule.checked else type(value) is int,
    Holds.ID: lambda value, rule: _whole(value),  # one outside the vocabulary says that nothing is padding
    Holds.SHARE: lambda value, rule: _number(value) and 0 <= value < 1,
    # Without a limit on gradients the limit is infinite.
    Holds.LIMIT: lambda value, rule: (
        (_number(value) and value > 0) or (rule.topic == "training" and value == math.inf)
    ),
    Holds.PART: lambda value, rule: _number(value) and 0 < value <= 1,
    Holds.NUMBER: lambda value, rule: _number(value),
    Holds.FLAG: lambda value, rule: type(value) is bool,
    Holds.CHOICE: lambda value, rule: type(value) is str and value in rule.choices,
    Holds.WORD: lambda value, rule: type(value) is str,
    Holds.OPTIONS: lambda value, rule: type(value) is tuple,
}


def fits(name: str, value: Any) -> bool:
    """Whether the field of this name may hold the value."""
    rule = RULES[name]
    return rule.optional if value is None else _FITS[rule.holds](value, rule)


def what_fits(name: str) -> str:
    """What the field may hold, in words."""
    rule = RULES[name]
    said = rule.holds.value.partition(": ")[2] if rule.checked else ""
    kinds = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word"}
    words = f"one of {', '.join(rule.choices)}" if rule.choices else said
    return words or kinds.get(rule.holds.type.__name__, "a list of pairs of words")
