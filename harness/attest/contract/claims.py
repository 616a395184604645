"""What an implementation claims: the values of the options it is judged on, and nothing else.

    supports = {"positions": ("rotary",), "num_kv_heads": "any"}    adds values to the model of 2017
    only = {"norm": ("pre",)}                                      takes values away from it
    families = ("llama",)                                          replaces it: all that a port of Llama says
    families = {"llama": {"tie": (False,)}}                        the same, without tied embeddings

A *space* is a product: each option has some values, or any. What is claimed is a union of spaces. A builder
is never called with a config outside of it; inside it NotImplementedError is a failure. An implementation
that declares neither is asked as before there were claims: options that are `tried` take every value, and
there NotImplementedError says that the value is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from attest.contract.config import ANY, OPTIONS, RULES, Config, Holds, Rule, default_of
from attest.contract.covering import each_value, pairwise
from attest.contract.features import FEATURES
from attest.contract.operation import OPERATIONS

EVEN = "even"  # of a size in `only`
PADDINGS = ("none", "right", "left", "packed")  # packed: several documents in a row, by `packed`
PADDING = ("none", "right")  # where nothing is declared
# What a model has by its methods: claimed unless `only` takes it away, as in {"cache": (False,)}.
ABILITIES = ("cache", "reorder")
OPERATIONS_KEY = "operations"  # in a mapping of `supports`: the operations it speaks of


@dataclass(frozen=True)
class Values:
    """The values of one option. `named` are those that the implementation wrote down, or ANY."""

    drawn: tuple[Any, ...]
    whole: bool = False  # every value, not only those that are drawn
    named: tuple[Any, ...] = ()
    even: bool = False  # of a size: no odd number

    def holds(self, value: Any) -> bool:
        """Whether the builder may be asked for it."""
        if self.even:
            return not isinstance(value, int) or value % 2 == 0
        return self.whole or value in self.drawn

    def names(self, value: Any) -> bool:
        """Whether the implementation said that it has this value."""
        return ANY in self.named or value in self.named


def baseline(name: str, rule: Rule) -> Values:
    """What is asked of an implementation that declares something, but nothing about this option."""
    default = default_of(name)
    if rule.asked == ANY:
        return Values(_distinct((default, *rule.known)), whole=True)
    return Values(_distinct((default, *rule.asked)))


def undeclared(name: str, rule: Rule) -> Values:
    """What is asked of an implementation that declares nothing."""
    default = default_of(name)
    return Values(_distinct((default, *rule.known)), whole=True) if rule.tried else Values((default,))


def added(name: str, rule: Rule, given: Any) -> Values:
    """The values of the baseline and those that `supports` names."""
    base = baseline(name, rule)
    if given == ANY:
        return Values(_distinct((*base.drawn, *rule.known)), whole=True, named=(ANY,))
    return Values(_distinct((*base.drawn, *given)), base.whole, tuple(given))


def narrowed(name: str, given: Any) -> Values:
    """The values that `only` leaves."""
    if given == EVEN:
        return Values((), even=True)
    return Values(tuple(given), named=tuple(given))


@dataclass(frozen=True)
class Space:
    """A product of options. `operations` are those it speaks of, none of them: all; `name` is a family's."""

    options: Mapping[str, Values]
    operations: frozenset[str] = frozenset()
    name: str = ""

    def covers(self, operation: str) -> bool:
        """Whether it speaks of this operation."""
        return not self.operations or operation in self.operations

    def outside(self, operation: str, config: Config) -> list[str]:
        """The fields that the operation reads and whose values are not in this space."""
        return [n for n in _read(self.options, operation) if not self.options[n].holds(getattr(config, n))]

    def promises(self, operation: str, config: Config) -> bool:
        """Whether the implementation named one of these options, and the others are named or the default.

        A config of defaults alone promises nothing: a builder may exist only to raise NotImplementedError.
        """
        values = {n: getattr(config, n) for n in _read(self.options, operation) if n in OPTIONS}
        named = [n for n, value in values.items() if self.options[n].names(value)]
        told = [n for n in named if values[n] != default_of(n) or ANY not in self.options[n].named]
        plain = [n for n, value in values.items() if n in named or value == default_of(n)]
        return bool(told) and len(plain) == len(values)


@dataclass(frozen=True)
class Claims:
    """Everything an implementation declares about what it can do, in the form that criteria ask."""

    spaces: tuple[Space, ...]
    declared: bool = False
    supports: Any = None  # as declared
    only: Mapping[str, Any] = field(default_factory=dict)  # as declared
    families: tuple[str, ...] = ()
    padding: tuple[str, ...] = PADDING
    backends: tuple[str, ...] = ()
    computes: Mapping[str, str] = field(default_factory=dict)
    offers: frozenset[str] = frozenset()

    def outside(self, operation: str, config: Config) -> str:
        """Why the builder is not asked for this config, in a few words; empty where it is."""
        return self._outside(operation, config, lambda name: False)

    def _outside(self, operation: str, config: Config, put_aside: Callable[[str], bool]) -> str:
        missing = [
            [name for name in s.outside(operation, config) if not put_aside(name)]
            for s in self._spaces(operation)
        ]
        if not missing:
            return f"{operation} is not among the operations that are claimed"
        fewest = min(missing, key=len)
        told = ", ".join(f"{name}={getattr(config, name)!r}" for name in fewest)
        return f"{operation} with {told} is not claimed" if fewest else ""

    def refusal_asked(self, operation: str, config: Config) -> str:
        """The same for a config that must be refused: a value that no implementation can have is put aside.

        It is kept where the option is claimed with its default alone, since then no builder reads the option.
        """
        return self._outside(operation, config, lambda name: self._impossible(name, config))

    def _impossible(self, name: str, config: Config) -> bool:
        value = getattr(config, name)
        if name not in OPTIONS:  # a size of which `only` leaves the even ones
            return not (isinstance(value, int) and not isinstance(value, bool) and value > 0)
        rule = OPTIONS[name]
        claimed = rule.tried or any(len(s.options[name].drawn) > 1 for s in self.spaces)
        possible = value in rule.known if rule.holds in (Holds.CHOICE, Holds.FLAG) else False
        return claimed and not possible

    def promises(self, operation: str, config: Config) -> bool:
        """Whether NotImplementedError for this config breaks what was declared."""
        return self.declared and any(s.promises(operation, config) for s in self._spaces(operation))

    def values(self, name: str, operation: str = "") -> tuple[Any, ...]:
        """The values of an option that are drawn, of an operation or of any, in order."""
        spaces = self._spaces(operation) if operation else self.spaces
        return _distinct(v for s in spaces if name in s.options for v in s.options[name].drawn)

    def rows(
        self,
        operation: str,
        names: Sequence[str],
        wanted: Mapping[str, Any] | None = None,
        *,
        few: bool = False,
    ) -> tuple[Mapping[str, Any], ...]:
        """Combinations of these options in which every claimed pair of values appears.

        With `few` only every value, and the space that was declared last comes first. With `wanted` only rows
        in which these options have these values. Options that the operation does not read are left out.
        """
        table = each_value if few else pairwise
        found: list[Mapping[str, Any]] = []
        for space in reversed(self._spaces(operation)) if few else self._spaces(operation):
            free = {n: space.options[n].drawn for n in names if n in _read(OPTIONS, operation)}
            fixed = {n: (v,) for n, v in (wanted or {}).items()}
            if all(n in space.options and space.options[n].holds(v) for n, (v,) in fixed.items()):
                found += [row for row in table({**free, **fixed}) if row not in found]
        return tuple(found)

    def nearest(self, operation: str, config: Config) -> Config:
        """The config with each option that is not claimed at its first claimed value."""
        spaces = self._spaces(operation)
        if not spaces:
            return config
        space = min(spaces, key=lambda s: len(s.outside(operation, config)))
        changes = {
            n: space.options[n].drawn[0] for n in space.outside(operation, config) if space.options[n].drawn
        }
        return config.but(**changes)

    @cached_property
    def features(self) -> frozenset[str]:
        """The features that are claimed, see `attest.contract.features`."""
        return frozenset(name for name, feature in FEATURES.items() if feature.claimed(self))

    def sentence(self) -> str:
        """What is declared, for a report; empty where nothing is."""
        mappings = [self.supports or {}] if isinstance(self.supports or {}, Mapping) else self.supports
        told = [_told("family", self.families)] if self.families else []
        told += [_told(n, given) for mapping in mappings for n, given in mapping.items()]
        told += [_told(f"only {n}", given) for n, given in self.only.items()]
        told += [_told("padding", self.padding)] if self.padding != PADDING else []
        told += [_told("backends", self.backends)] if self.backends else []
        told += [f"{dtype} judged by the bounds of {bounds}" for dtype, bounds in self.computes.items()]
        return "; ".join(told)

    def _spaces(self, operation: str) -> list[Space]:
        return [s for s in self.spaces if s.covers(operation)]


EVERYTHING: Mapping[str, Any] = {
    name: ANY
    for name, rule in OPTIONS.items()
    if rule.asked != ANY and {default_of(name), *rule.asked} != {*rule.known}
}
"""What an implementation `supports` that has every value of every option."""


def claims_of(implementation: Any) -> Claims:
    """What the implementation declares. Its declarations were checked by `attest.declared`."""
    supports, only = getattr(implementation, "supports", None), getattr(implementation, "only", None)
    named = getattr(implementation, "families", None) or ()
    declared = supports is not None or bool(only) or bool(named)
    base = baseline if declared else undeclared
    taken = {name: narrowed(name, given) for name, given in (only or {}).items() if name in RULES}
    mappings = [supports or {}] if isinstance(supports or {}, Mapping) else [{}, *supports]  # type: ignore[misc]
    spaces = [_space(mapping, base, taken) for mapping in mappings] if supports or not named else []
    narrower = named if isinstance(named, Mapping) else {name: {} for name in named}
    spaces += [_family_space(name, given, taken) for name, given in narrower.items()]
    return Claims(
        spaces=tuple(spaces),
        families=tuple(narrower),
        declared=declared,
        supports=supports,
        only=dict(only or {}),
        padding=tuple(getattr(implementation, "padding", None) or PADDING),
        backends=tuple(getattr(implementation, "backends", None) or ()),
        computes=dict(getattr(implementation, "computes", None) or {}),
        offers=frozenset(n for n in OPERATIONS if callable(getattr(implementation, n, None))),
    )


def _space(mapping: Mapping[str, Any], base: Any, taken: Mapping[str, Values]) -> Space:
    own = {n: added(n, OPTIONS[n], v) for n, v in mapping.items() if n != OPERATIONS_KEY}
    options = {n: base(n, rule) for n, rule in OPTIONS.items()}
    return Space({**options, **own, **taken}, frozenset(mapping.get(OPERATIONS_KEY, ())))


def _family_space(name: str, narrower: Mapping[str, Any], taken: Mapping[str, Values]) -> Space:
    from attest.families import family_named  # it is made of configs and stands on this package

    family = family_named(name)
    options = {}
    for option, rule in OPTIONS.items():
        given = narrower.get(option, family.values(option))
        known = (default_of(option), *rule.known)
        options[option] = (
            Values(_distinct(known), whole=True, named=(ANY,))
            if given == ANY
            else Values(tuple(given), named=tuple(given))
        )
    return Space({**options, **taken}, frozenset(family.operations), name)


def _told(name: str, given: Any) -> str:
    values = given if isinstance(given, str) else ", ".join(str(v).lower() for v in given)
    return f"{name}: {values}"


def _read(names: Iterable[str], operation: str) -> Iterator[str]:
    reads = OPERATIONS[operation].reads
    return iter([n for n in names if n in reads])


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return tuple(found)
