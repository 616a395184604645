"""What is wrong with the `supports` and `only` of an implementation, in one sentence with a remedy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attest.contract.claims import ABILITIES, EVEN, OPERATIONS_KEY
from attest.contract.config import ANY, OPTIONS, RULES, Holds, Rule, default_of
from attest.contract.operation import OPERATIONS


def claims_at_fault(supports: Any, only: Any, families: Any = None) -> Iterator[str]:
    """Everything that is wrong with these declarations."""
    yield from _of_families(families)
    mappings = supports if isinstance(supports, list | tuple) else [] if supports is None else [supports]
    for mapping in mappings:
        yield from _of_supports(mapping)
    yield from _of_only(only)
    named = {name for mapping in mappings if isinstance(mapping, Mapping) for name in mapping}
    for name in sorted(named & set(only if isinstance(only, Mapping) else ()), key=str):
        yield f"{name} is in supports and in only; keep the one in only, which says all of its values"


def _of_supports(mapping: Any) -> Iterator[str]:
    if not isinstance(mapping, Mapping):
        yield f"supports={_short(mapping)} is not a mapping; write option -> values, or a list of mappings"
        return
    for name, given in mapping.items():
        if name == OPERATIONS_KEY:
            yield from _operations(given)
        elif name not in OPTIONS:
            yield f"supports names {_short(name)}, which is not an option; {_nearest(name, OPTIONS)}"
        elif given != ANY:
            yield from _values(f"supports[{name!r}]", given, name, OPTIONS[name])


def _of_only(only: Any) -> Iterator[str]:
    if only is None:
        return
    if not isinstance(only, Mapping):
        yield f"only={_short(only)} is not a mapping; write option -> values"
        return
    sizes = [name for name, rule in RULES.items() if rule.holds is Holds.SIZE]
    for name, given in only.items():
        if name in ABILITIES:
            if given not in ((True,), (False,), [True], [False]):
                yield f"only[{name!r}]={_short(given)} is unknown; write (False,) where there is none"
        elif name not in OPTIONS and name not in sizes:
            known = (*OPTIONS, *ABILITIES, *sizes)
            yield f"only names {_short(name)}, which is not an option and no size; {_nearest(name, known)}"
        elif given != EVEN or name not in sizes:
            yield from _values(f"only[{name!r}]", given, name, RULES[name])


def _of_families(given: Any) -> Iterator[str]:
    if given is None:
        return
    if not isinstance(given, Mapping | list | tuple):
        yield f'families={_short(given)} is no list of families; write for example ("llama",)'
        return
    try:
        from attest.families import families  # it is made of configs and stands on this package
    except ModuleNotFoundError:
        return  # under seal no file of the spec can be seen; the other side checks what is declared

    for name in given:
        if name not in families():
            yield f"families names {_short(name)}, which is no family; {_nearest(name, families())}"
        elif isinstance(given, Mapping):
            yield from _narrower(name, given[name], families()[name].values)


def _narrower(name: str, given: Any, values: Callable[[str], Any]) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield f"families[{name!r}]={_short(given)} is no mapping; write option -> values"
        return
    for option, chosen in given.items():
        if option not in OPTIONS:
            yield f"families[{name!r}] names {_short(option)}, no option; {_nearest(option, OPTIONS)}"
            continue
        yield from _values(f"families[{name!r}][{option!r}]", chosen, option, OPTIONS[option])
        allowed = values(option)
        for value in chosen if isinstance(chosen, list | tuple) and allowed != ANY else ():
            if value not in allowed:
                yield f"families[{name!r}][{option!r}] has {_short(value)}; the family has {allowed}"


def _operations(given: Any) -> Iterator[str]:
    if not isinstance(given, list | tuple) or not given:
        yield f"supports['operations']={_short(given)} is not a list of operations; name some or leave it out"
        return
    for name in given:
        if name not in OPERATIONS:
            yield f"supports names the operation {_short(name)}, unknown; {_nearest(name, OPERATIONS)}"


def _values(where: str, given: Any, name: str, rule: Rule) -> Iterator[str]:
    if not isinstance(given, list | tuple) or not given:
        example = f"({_example(name, rule)!r},)"
        yield f"{where}={_short(given)} is not a list of values; write for example {example}"
        return
    for value in given:
        if not _fits(value, name, rule):
            wanted = ", ".join(map(repr, rule.known)) or rule.holds.value.partition(": ")[2] or "a number"
            yield f"{where} has {_short(value)}; use some of {wanted}"


def _fits(value: Any, name: str, rule: Rule) -> bool:
    if rule.holds in (Holds.CHOICE, Holds.FLAG):
        return any(value is known or (isinstance(known, str) and value == known) for known in rule.known) or (
            value is None and default_of(name) is None
        )
    if value is None:
        return rule.optional or default_of(name) is None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return _in_range(value, rule.holds)


def _in_range(value: float, holds: Holds) -> bool:
    """Whether a number is one that a field of this kind can hold."""
    if holds in (Holds.SIZE, Holds.COUNT):
        return isinstance(value, int) and (holds is Holds.COUNT or value >= 1) and 0 <= value < 2**31
    if holds in (Holds.LIMIT, Holds.PART):
        return value > 0 and (holds is Holds.LIMIT or value <= 1)
    return holds is not Holds.SHARE or 0 <= value < 1


def _example(name: str, rule: Rule) -> Any:
    return next((v for v in rule.known if v != default_of(name)), 2)


def _nearest(name: Any, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(str(name), list(known), 1, 0.5)
    return f"did you mean {found[0]}?" if found else f"use some of {', '.join(known)}"


def _short(value: Any) -> str:
    try:
        return repr(value)[:60]
    except Exception:
        return f"a {type(value).__name__}"
