"""What an operation is: one record that says what it takes, gives and reads, and the registry of all records.

Shapes are words: "B T D" is (batch, length, width). A leading "..." stands for any axes. The record's `sizes`
names the field of the config that fixes the length of a word; the other words are free, and equal words must
have equal lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

from attest.contract.config import RULES, Config

Shapes = dict[str, tuple[int, ...]]


class Form(Enum):
    """How an operation is used."""

    FUNCTION = "called with positional arguments, without a config"
    COMPONENT = "built from a config, called with arrays"
    MODEL = "a component that maps ids to logits"
    GENERATOR = "a component that searches or samples with a model"
    SCHEDULE = "built from a config, maps a step to a number"
    CLIPPING = "built from a config, maps gradients to gradients"
    OPTIMIZER = "see Optimizer"
    UPDATE = "an optimiser of any named arrays, see Optimizer; it has none until they are loaded"
    TRAINER = "see Trainer"


class Kind(Enum):
    """What an input holds."""

    FLOATING = "numbers in the config's dtype"
    IDS = "int64"
    MASK = "bool, True where a query may attend"
    FLAG = "a bool"
    NUMBER = "a plain number or word"
    ARRAYS = "a mapping of arrays"


@dataclass(frozen=True)
class Port:
    """One input. `below` bounds ids: a field of the config or a word of another port's shape."""

    shape: str
    kind: Kind = Kind.FLOATING
    optional: bool = False
    below: str = ""
    some: bool = False  # its length (the axis before the width, or the last of ids) is at least 1
    per: str = ""  # of a mask: the config field with the number of positions that one entry stands for

    @property
    def words(self) -> tuple[str, ...]:
        """The shape, word by word."""
        return tuple(self.shape.split())


def floats(shape: str, *, some: bool = False) -> Port:
    """Numbers that have a gradient."""
    return Port(shape, some=some)


def ids(shape: str, below: str = "", *, some: bool = False) -> Port:
    """Whole numbers from 0 up to, not including, `below`."""
    return Port(shape, Kind.IDS, below=below, some=some)


def mask(shape: str) -> Port:
    """May be left out. "B T S" takes (T, S) and (B or 1, T or 1, S); "... T S" whatever broadcasts."""
    return Port(shape, Kind.MASK, optional=True)


def no_parameters(config: Config) -> Shapes:
    """The layout of an operation that learns nothing."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Method:
    """A further method of a model that takes and gives arrays."""

    takes: Mapping[str, Port]
    gives: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of the contract.

    `reads` names fields of the config; every operation also reads dtype, device, seed and options. `streams`
    names the inputs whose positions a flow map follows; the positions of the output are those of the first.
    `formula` is for operations that a plugin brings: a function of the parts, the parameters and the
    inputs that returns the outputs, as those in `attest.reference.parts`; of a function: of the parts
    and its arguments. Two records are equal when they describe the same operation, whatever their functions:
    a plugin may be imported twice.
    """

    name: str
    form: Form
    milestone: str
    note: str = ""  # a few words for the manual
    takes: Mapping[str, Port] = field(default_factory=dict)
    gives: Mapping[str, str] = field(default_factory=dict)
    may_give: Mapping[str, str] = field(default_factory=dict)  # outputs that may be left out
    reads: frozenset[str] = frozenset()
    sizes: Mapping[str, str] = field(default_factory=lambda: {"D": "d_model"})
    parameters: Callable[[Config], Shapes] = field(default=no_parameters, compare=False)
    tables: frozenset[str] = frozenset()  # parameters with a row for each token
    methods: Mapping[str, Method] = field(default_factory=dict)
    streams: tuple[str, ...] = ()
    formula: Callable[..., Mapping[str, Any]] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"operation name={self.name!r} is not a Python name; choose one")
        for name in sorted(self.reads | set(self.sizes.values())):
            if name not in RULES:
                raise ValueError(f"{self.name} reads {name!r}, which the config lacks; use one of its fields")
        for name in self.streams:
            if name not in self.takes:
                raise ValueError(f"{self.name} has the stream {name!r}, which it does not take; add a port")

    @property
    def called(self) -> bool:
        """Whether what its builder returns is called with inputs."""
        return self.form not in (Form.FUNCTION, Form.OPTIMIZER, Form.UPDATE, Form.TRAINER)

    @property
    def computes(self) -> bool:
        """Whether it maps arrays to arrays: a component or a model."""
        return self.form in (Form.COMPONENT, Form.MODEL)

    @property
    def output(self) -> str:
        """Its first output."""
        return next(iter(self.gives))

    @property
    def ports(self) -> dict[str, Port]:
        """The inputs of the operation and of its methods."""
        return {
            **{name: port for method in self.methods.values() for name, port in method.takes.items()},
            **self.takes,
        }

    @property
    def floating(self) -> frozenset[str]:
        """The inputs that have a gradient."""
        return frozenset(name for name, port in self.ports.items() if port.kind is Kind.FLOATING)


_registered: dict[str, Operation] = {}
OPERATIONS: Mapping[str, Operation] = MappingProxyType(_registered)


def register_operation(record: Operation) -> Operation:
    """Add an operation to the contract; ValueError where another one has its name."""
    known = _registered.get(record.name)
    if known is not None and known != record:
        raise ValueError(f"operation name={record.name!r} is taken by {known.milestone}; choose another name")
    _registered[record.name] = record
    return record


def operation_of(name: str) -> Operation:
    """The record of an operation, or the one that has a method of this name; ValueError for neither."""
    if name in _registered:
        return _registered[name]
    for record in _registered.values():
        if name in record.methods:
            return record
    raise ValueError(f"operation={name!r} is unknown; use one of {', '.join(_registered)}")


def readers(name: str) -> tuple[str, ...]:
    """The operations that read a field of the config."""
    return tuple(record.name for record in _registered.values() if name in record.reads)
