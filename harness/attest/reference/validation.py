"""What a component refuses: configs on construction, inputs before anything is computed.

Every message names the argument, its value, the rule and a remedy. The rules are methods, so that a defect
can leave one out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Config, Kind, Operation, Port
from attest.contract.config import RULES, Holds, Rule
from attest.reference.tape import Array

# words of shapes as a refusal says them
MEANS = {"B": "batch", "T": "length", "S": "length", "V": "vocabulary", "d": "width", "...": "leading axes"}


class ConfigRules:
    """Refuses a config that makes no sense for the operation that reads it."""

    config: Config
    reads: frozenset[str]

    def check_config(self) -> None:
        self.check_sizes()
        self.check_heads()
        self.check_inner_width()
        self.check_dropout()
        self.check_numbers()
        self.check_choices()
        self.check_options()
        self.check_rotated_width()
        self.check_scaling()
        self.check_buckets()
        self.check_special_ids()
        self.check_training()

    def fields(self, *kinds: Holds, training: bool = False) -> list[tuple[str, Rule]]:
        """The fields of these kinds that the operation reads, those of training or the others."""
        return [
            (name, rule)
            for name, rule in RULES.items()
            if name in self.reads and rule.holds in kinds and (rule.topic == "training") == training
        ]

    def check_sizes(self) -> None:
        for name, rule in self.fields(Holds.SIZE):
            if not rule.divides and not rule.optional:
                check_size(name, getattr(self.config, name))

    def check_heads(self) -> None:
        for name, rule in self.fields(Holds.SIZE):
            heads = getattr(self.config, name)
            if rule.divides and heads is not None:
                width = getattr(self.config, rule.divides)
                check_size(name, heads)
                if width % heads and not self.has_own_width(rule):
                    raise ValueError(
                        f"{name}={heads} does not divide {rule.divides}={width}; choose a divisor of {width}"
                    )

    def has_own_width(self, rule: Rule) -> bool:
        """Whether heads need not divide the width: theirs is given."""
        own = "head_width" in self.reads and self.config.head_width is not None
        return own and rule.divides == "d_model"

    def check_inner_width(self) -> None:
        for name, rule in self.fields(Holds.SIZE):
            if rule.optional and getattr(self.config, name) is not None:
                check_size(name, getattr(self.config, name))

    def check_dropout(self) -> None:
        for name, _ in self.fields(Holds.SHARE):
            check_share(name, getattr(self.config, name))

    def check_numbers(self) -> None:
        for name, _ in (*self.fields(Holds.NUMBER), *self.fields(Holds.NUMBER, training=True)):
            value = getattr(self.config, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}={value} must be finite and at least 0; give a small number")

    def check_choices(self) -> None:
        for name, rule in self.fields(Holds.CHOICE):
            check_choice(name, getattr(self.config, name), rule)

    def check_options(self) -> None:
        if "num_classes" in self.reads and self.config.num_classes < 2:
            raise ValueError(f"num_classes={self.config.num_classes} must be at least 2; give more classes")
        for name, _ in self.fields(Holds.COUNT):
            if not _is_integer(value := getattr(self.config, name)) or value < 0:
                raise ValueError(f"{name}={value!r} must be an integer of at least 0; 0 is none")
        for name, rule in self.fields(Holds.PART, Holds.LIMIT):
            if (value := getattr(self.config, name)) is not None:
                check_number(name, value, rule)

    def check_rotated_width(self) -> None:
        """Of heads whose width the config knows; `rotary` by itself sees it when it is called."""
        if {"positions", "num_heads"} <= self.reads and self.config.positions == "rotary":
            rotated_width(self.config.d_head, self.config.rotary_fraction)

    def check_scaling(self) -> None:
        """The numbers of a rule that scales rotary angles, where there is one."""
        if "rotary_scaling" in self.reads and self.config.rotary_scaling != "none":
            check_scaling(self.config)

    def check_buckets(self) -> None:
        """The buckets of distances, where they are read."""
        reads = "relative_buckets" in self.reads
        if reads and ("positions" not in self.reads or self.config.positions == "relative"):
            check_buckets(self.config)

    def check_special_ids(self) -> None:
        """A component that reads only pad_id takes one outside its vocabulary: then nothing is padding."""
        special = self.fields(Holds.ID)
        if len(special) < 2:
            return
        values = {name: getattr(self.config, name) for name, _ in special}
        values = {name: value for name, value in values.items() if value is not None}
        for name, rule in special:
            if name not in values:
                continue
            sizes = [getattr(self.config, size) for size in rule.vocabularies if size in self.reads]
            if sizes:
                check_id(name, values[name], min(sizes))
        if len(set(values.values())) < len(values):
            named = ", ".join(f"{name}={value}" for name, value in values.items())
            raise ValueError(f"{named} must differ; give each its own id")

    def check_training(self) -> None:
        for name, rule in self.fields(*Holds, training=True):
            if rule.checked:
                check_training_field(name, getattr(self.config, name), rule)


def refuse_config(config: Config, reads: frozenset[str]) -> None:
    """ValueError for a config that makes no sense where these fields of it are read."""
    rules = ConfigRules()
    rules.config, rules.reads = config, reads
    rules.check_config()


class InputRules:
    """Refuses inputs of the wrong rank, width, batch, length or mask shape, and ids that do not exist.

    Every rule follows from the ports of the operation's record.
    """

    config: Config
    record: Operation

    def check_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Each input by its port; then lengths that must agree; then ids and masks, which depend on them."""
        given = {name: (port, inputs[name]) for name, port in self.record.ports.items() if name in inputs}
        arrays = {n: (p, x) for n, (p, x) in given.items() if p.kind in (Kind.FLOATING, Kind.IDS)}
        for name, (port, x) in arrays.items():
            self.check_port(name, port, x)
        sizes = self.check_agreement(arrays)
        for name, (port, x) in given.items():
            if port.kind is Kind.IDS and port.below:
                self.check_ids(name, x, sizes.get(port.below) or getattr(self.config, port.below))
            if port.kind is Kind.IDS and not port.below:
                self.check_positions(name, x)
            if port.kind is Kind.MASK:
                self.check_mask(name, x, port, sizes)

    def check_port(self, name: str, port: Port, x: Array) -> None:
        """Rank, the widths that the config fixes, the longest length, and that something is there."""
        self.check_shape(name, port, x)
        length = x.shape[-1] if port.kind is Kind.IDS else x.shape[-2]
        if "max_len" in self.record.reads:
            self.check_length(name, length)
        if port.some and not length:
            raise ValueError(f"{name}={x.shape} is empty; give at least one position")
        if port.kind is Kind.FLOATING and not x.shape[-1]:
            raise ValueError(f"{name}={x.shape} has no features; give at least one")

    def check_shape(self, name: str, port: Port, x: Array) -> None:
        words = [word for word in port.words if word != "..."]
        right = x.ndim >= len(words) if "..." in port.words else x.ndim == len(words)
        wanted = [self.fixed(word) for word in words]
        if not right or any(n not in (None, m) for n, m in zip(wanted[::-1], x.shape[::-1])):
            shape = ", ".join(str(n or MEANS.get(word, word)) for n, word in zip(wanted, words))
            raise ValueError(f"{name}={x.shape} must be ({shape}); reshape it")

    def fixed(self, word: str) -> int | None:
        """The length that the config fixes for a word of a shape."""
        field = self.record.sizes.get(word)
        return None if field is None else int(getattr(self.config, field))

    def check_agreement(self, arrays: Mapping[str, tuple[Port, Array]]) -> dict[str, Any]:
        """Equal words have equal lengths; what each word stands for."""
        sizes: dict[str, Any] = {}
        first: dict[str, str] = {}
        for name, (port, x) in arrays.items():
            for word, length in _lengths(port, x).items():
                if sizes.setdefault(word, length) != length:
                    other, meaning = first[word], MEANS.get(word, word)
                    raise ValueError(
                        f"{name}={x.shape} has {meaning} {length} and {other}={arrays[other][1].shape} has "
                        f"{sizes[word]}; give both the same"
                    )
                first.setdefault(word, name)
        return sizes

    def check_mask(self, name: str, mask: Array, port: Port, sizes: Mapping[str, Any]) -> None:
        """(T, S) or (B or 1, T or 1, S); a mask over heads or over a bare key axis is refused."""
        check_mask_type(name, mask)
        *batch, rows, keys = port.words
        if batch == ["..."]:
            self.check_broadcast(name, mask, (*sizes["..."], sizes[rows], sizes[keys]))
            return
        B, T, S = sizes[batch[0]], sizes.get(rows, 1), sizes[keys]
        if port.per:
            self.check_blocks(name, mask, (B, T, S), getattr(self.config, port.per))
            return
        fits = mask.ndim == 3 and mask.shape[0] in (1, B) and mask.shape[1] in (1, T) and mask.shape[2] == S
        if mask.shape != (T, S) and not fits:
            raise ValueError(
                f"{name}={mask.shape} must be ({T}, {S}) or ({B} or 1, {T} or 1, {S}); "
                "add the missing axes with length 1"
            )

    def check_blocks(self, name: str, blocks: Array, sizes: tuple[int, int, int], per: int) -> None:
        """(H or 1, blocks of queries, blocks of keys); the last block of a length may be short."""
        H, rows, keys = sizes[0], -(-sizes[1] // per), -(-sizes[2] // per)
        if blocks.ndim != 3 or blocks.shape[0] not in (1, H) or blocks.shape[1:] != (rows, keys):
            raise ValueError(
                f"{name}={blocks.shape} must be ({H} or 1, {rows}, {keys}) for blocks of {per}; "
                "give one entry for each block, the last of a length may be short"
            )

    def check_broadcast(self, name: str, mask: Array, full: tuple[int, ...]) -> None:
        if mask.ndim > len(full) or any(m not in (1, n) for m, n in zip(mask.shape[::-1], full[::-1])):
            raise ValueError(f"{name}={mask.shape} does not broadcast to {full}; use True = may attend there")

    def check_ids(self, name: str, ids: Array, size: int) -> None:
        if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
            raise ValueError(
                f"{name}={ids.shape} {ids.dtype} must be integers (batch, length); reshape or cast"
            )
        outside = ids[(ids < 0) | (ids >= size)]
        if outside.size:
            raise ValueError(
                f"{name}={int(outside[0])} is outside the vocabulary; use ids from 0 to {size - 1}"
            )

    def check_positions(self, name: str, positions: Array) -> None:
        """Whole numbers from 0 on, without a limit."""
        if not np.issubdtype(positions.dtype, np.integer) or (positions < 0).any():
            raise ValueError(f"{name} must be integers of at least 0; positions count from 0")

    def check_length(self, name: str, length: int) -> None:
        limit = self.config.max_len
        if length > limit and self.config.ends_at_max_len:
            raise ValueError(f"{name} length={length} exceeds max_len={limit}; shorten it or raise max_len")


def _lengths(port: Port, x: Array) -> dict[str, Any]:
    """What each word of a port stands for; the leading axes as one tuple."""
    words = port.words
    if words[:1] != ("...",):
        return dict(zip(words, x.shape))
    rest = words[1:]
    return {"...": x.shape[: x.ndim - len(rest)], **dict(zip(rest, x.shape[x.ndim - len(rest) :]))}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_size(name: str, value: Any) -> None:
    if not _is_integer(value) or value < 1:
        raise ValueError(f"{name}={value!r} must be an integer of at least 1; give a whole number")


def check_share(name: str, value: Any) -> None:
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not number or math.isnan(value) or not 0 <= value < 1:
        raise ValueError(f"{name}={value!r} must be at least 0 and below 1; use 0 to switch it off")


def check_id(name: str, value: Any, size: int) -> None:
    if not _is_integer(value) or not 0 <= value < size:
        raise ValueError(f"{name}={value!r} is outside the vocabulary; use an id from 0 to {size - 1}")


def check_choice(name: str, value: Any, rule: Rule) -> None:
    if value not in rule.choices:
        raise ValueError(f"{name}={value!r} is not known; choose one of {', '.join(rule.choices)}")


def check_number(name: str, value: Any, rule: Rule) -> None:
    """A number above 0, and at most 1 where it is a part of something."""
    if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not value > 0:
        raise ValueError(f"{name}={value!r} must be a number above 0; give one")
    if rule.holds is Holds.PART and value > 1:
        raise ValueError(f"{name}={value!r} must be at most 1; use 1 for the whole head")


def rotated_width(width: int, fraction: float) -> int:
    """How many of a head's leading features are turned; ValueError where they do not form pairs."""
    rotated = round(width * fraction)
    if rotated % 2 or abs(rotated - width * fraction) > 1e-9 or not rotated:
        raise ValueError(
            f"rotary_fraction={fraction} of a head of width {width} is no even number of features; "
            "choose another width or fraction"
        )
    return rotated


def check_scaling(config: Config) -> None:
    """A factor of at least 1, and fast pairs that turn more often than slow ones."""
    if config.rotary_factor < 1:
        raise ValueError(f"rotary_factor={config.rotary_factor!r} must be at least 1; use 1 to scale nothing")
    slow, fast = config.rotary_slow_turns, config.rotary_fast_turns
    if config.rotary_scaling != "linear" and not slow < fast:
        raise ValueError(
            f"rotary_slow_turns={slow!r} must be below rotary_fast_turns={fast!r}; exchange them"
        )
    if config.rotary_scaling == "yarn" and config.rotary_base <= 1:
        raise ValueError(f"rotary_base={config.rotary_base!r} must be above 1 for yarn; give 10000")


def check_buckets(config: Config) -> None:
    """Two buckets for each side or more, and far distances beyond those that have a bucket each."""
    buckets, distance = config.relative_buckets, config.relative_distance
    if buckets < 4:
        raise ValueError(f"relative_buckets={buckets} must be at least 4; give two or more for each side")
    if distance <= buckets // 2:
        raise ValueError(
            f"relative_distance={distance} must be above half of relative_buckets={buckets}; "
            f"use {buckets // 2 + 1} or more"
        )


def check_training_field(name: str, value: Any, rule: Rule) -> None:
    """By what the field holds; a plain number may be anything."""
    if rule.holds is Holds.SHARE:
        check_share(name, value)
    if rule.holds is Holds.CHOICE:
        check_choice(name, value, rule)
    if rule.holds is Holds.COUNT and (not _is_integer(value) or value < 0):
        raise ValueError(f"{name}={value!r} must be an integer of at least 0; give a number of steps")
    if rule.holds is Holds.LIMIT and not value > 0:
        raise ValueError(f"{name}={value!r} must be above 0; use inf to leave gradients alone")


def check_mask_type(name: str, mask: Array) -> None:
    if mask.dtype != np.bool_ and not np.issubdtype(mask.dtype, np.integer):
        raise ValueError(f"{name} has dtype {mask.dtype}; give booleans, True = may attend")
