"""One family: a value that the loader has checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attest.contract.config import ANY, OPTIONS, Config, default_of
from attest.contract.parameters import shapes

ALTERNATIVE = " | "  # between two names of which a model has one
LAYER = "{i}"


@dataclass(frozen=True)
class HuggingFaceNames:
    """How a config is said to the classes of transformers; a dotted key lies in a mapping."""

    model: str
    config: str
    attentions: tuple[str, ...] = ("sdpa", "eager")
    constants: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)  # their key -> a field or property of Config


@dataclass(frozen=True)
class Family:
    """What all models of a family have in common, and how their parameters are called elsewhere."""

    name: str
    title: str
    operation: str  # the whole model
    operations: tuple[str, ...]  # what a port of it may offer
    fixed: Mapping[str, Any]
    free: Mapping[str, Any]  # option -> values, or "any"
    names: Mapping[str, str]  # canonical name -> the name elsewhere; {i} is the number of the layer
    huggingface: HuggingFaceNames
    dtypes: tuple[str, ...] = ("float32", "float64", "bfloat16")  # in which the known code really computes
    prefix: str = ""  # of the names in a whole model, which a model that was saved without its head lacks

    def values(self, option: str) -> Any:
        """The values of an option in this family, or "any"."""
        if option in self.fixed:
            return (self.fixed[option],)
        return self.free.get(option, (default_of(option),))

    def config(self, **sizes: Any) -> Config:
        """A config of this family: what it fixes, the first of what is free, and these sizes."""
        first = {name: given[0] for name, given in self.free.items() if given != ANY}
        return Config(**{**self.fixed, **first, **sizes})

    def names_for(self, config: Config) -> dict[str, str]:
        """Canonical name to name elsewhere for every parameter that a model of this config has."""
        found = {}
        for canonical in shapes(self.operation, config):
            pattern, layer = self.pattern_of(canonical)
            if pattern is not None:
                found[canonical] = pattern.replace(LAYER, layer)
        return found

    def pattern_of(self, canonical: str) -> tuple[str | None, str]:
        """The name elsewhere, with {i} for the layer, and that layer's number."""
        if canonical in self.names:
            return self.names[canonical], ""
        words = canonical.split(".")
        numbers = [i for i, word in enumerate(words) if word.isdigit()]
        for i in numbers:
            pattern = ".".join([*words[:i], LAYER, *words[i + 1 :]])
            if pattern in self.names:
                return self.names[pattern], words[i]
        return None, ""

    def says(self) -> str:
        """One line for a list: what is fixed and what is free."""
        fixed = ", ".join(f"{name} {_word(value)}" for name, value in self.fixed.items())
        free = ", ".join(name for name, given in self.free.items() if given == ANY or len(given) > 1)
        return f"{fixed}; free: {free}"


def _word(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def is_option(name: str) -> bool:
    """Whether a family may speak of this field."""
    return name in OPTIONS
