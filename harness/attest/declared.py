"""What an implementation declares beside its operations, checked once: one sentence for what is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from attest.contract.claim_faults import claims_at_fault
from attest.contract.claims import PADDINGS

DTYPES = ("float32", "float64", "bfloat16", "float16")
PACKAGE_RULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
MOST_WIDENING = 1000.0  # beyond this a float32 bound lets a wrong answer through; bfloat16 needs no widening
_KNOWN_FAILURE = ("criterion", "reason", "link", "witness")


def misdeclared(implementation: Any) -> str:
    """The first thing that is wrong with its declarations, with a remedy; empty where nothing is."""
    return next(_faults(implementation), "")


def _faults(implementation: Any) -> Iterator[str]:
    yield from _words(getattr(implementation, "dtypes", None), "dtypes", DTYPES)
    yield from _words(getattr(implementation, "devices", None), "devices", ())
    yield from _known_failures(getattr(implementation, "known_failures", None))
    yield from _wider_bounds(getattr(implementation, "wider_bounds", None))
    yield from _options(getattr(implementation, "options", None))
    yield from _shape_policy(getattr(implementation, "shape_policy", None))
    yield from _words(getattr(implementation, "padding", None), "padding", PADDINGS)
    yield from _words(getattr(implementation, "backends", None), "backends", ())
    yield from _packages(getattr(implementation, "packages", None))
    yield from _computes(getattr(implementation, "computes", None), getattr(implementation, "dtypes", None))
    yield from claims_at_fault(
        getattr(implementation, "supports", None),
        getattr(implementation, "only", None),
        getattr(implementation, "families", None),
    )


def _words(value: Any, name: str, choices: tuple[str, ...]) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        example = f"({(choices or ('cpu',))[0]!r},)"
        yield f"{name}={_short(value)} is not a list of words; write for example {name} = {example}"
    elif choices and (unknown := [word for word in value if word not in choices]):
        yield f"{name} names {unknown[0][:40]!r}; use some of {', '.join(choices)}"


def _packages(value: Any) -> Iterator[str]:
    fault = next(_words(value, "packages", ()), "")
    odd = [word for word in value or () if not PACKAGE_RULE.fullmatch(word)] if not fault else []
    if fault or odd:
        yield fault or f"packages names {_short(odd[0])}, which is no package; write it as pip has it"


def _computes(value: Any, dtypes: Any) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        example = "computes = {'float64': 'float32'}"
        yield f"computes={_short(value)} is not a mapping; write for example {example}"
        return
    for dtype, inside in value.items():
        if (dtype, inside) != ("float64", "float32"):
            yield (
                f"computes[{_short(dtype)}]={_short(inside)} is unknown; "
                "only 'float64': 'float32' can be declared"
            )
        elif dtype not in (dtypes or ()):
            yield f"computes speaks of {dtype}, which is not among dtypes; add it there"


def _known_failures(value: Any) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, list | tuple):
        yield f"known_failures={_short(value)} is not a list; write a list of KnownFailure"
        return
    for known in value:
        absent = [name for name in _KNOWN_FAILURE if not isinstance(getattr(known, name, None), str)]
        if absent:
            yield f"a known failure ({_short(known)}) has no text as its {absent[0]}; write a KnownFailure"


def _wider_bounds(value: Any) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield f"wider_bounds={_short(value)} is not a mapping; write operation -> factor"
        return
    for operation, factor in value.items():
        number = isinstance(factor, int | float) and not isinstance(factor, bool) and math.isfinite(factor)
        if not number or factor > MOST_WIDENING:
            yield (
                f"wider_bounds[{_short(operation)}]={_short(factor)} is not a factor; "
                f"give a number of at most {MOST_WIDENING:g}"
            )


def _options(value: Any) -> Iterator[str]:
    pairs = isinstance(value, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
        for pair in value
    )
    if value is not None and not pairs:
        yield f"options={_short(value)} is not a list of pairs of words; leave it to --impl NAME,option=value"


def _shape_policy(value: Any) -> Iterator[str]:
    smallest = getattr(value, "min_size", 1)
    if not isinstance(smallest, int) or not 1 <= smallest <= 64:
        yield f"shape_policy.min_size={_short(smallest)} is not a size; give a whole number from 1 to 64"


def _short(value: Any) -> str:
    try:
        return repr(value)[:60]
    except Exception:
        return f"a {type(value).__name__}"
