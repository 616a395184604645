"""Note everything that is asked of an implementation, as a list of steps that can be asked again.

A stand-in is put around the implementation and around every object it makes. A property does not notice: it
gets the same arrays. What was asked can then be put to the reference, or written down as a script.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from attest.contract import Array, Config

PLAIN = (str, bytes, bool, int, float, type(None), np.ndarray, np.generic, Config)


@dataclass(frozen=True)
class Ref:
    """An object that a step gave: its result, or an attribute or item of it. No step: the implementation."""

    step: int | None = None
    path: tuple[tuple[str, Any], ...] = ()

    def attribute(self, name: str) -> Ref:
        """An attribute of this object."""
        return Ref(self.step, (*self.path, ("attribute", name)))

    def item(self, key: Any) -> Ref:
        """An item of this object."""
        return Ref(self.step, (*self.path, ("item", key)))

    def suffix(self) -> str:
        """The path as Python writes it."""
        return "".join(f".{key}" if kind == "attribute" else f"[{key!r}]" for kind, key in self.path)


@dataclass(frozen=True)
class Once:
    """An argument that could be read only once."""

    items: list[Any]


@dataclass(frozen=True)
class Step:
    """One call: on what, with what, and the numbers it gave, by their place in the result."""

    target: Ref
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    values: Mapping[str, Array]
    changed: tuple[str, ...] = ()  # keyword arrays that the call changed
    raised: str = ""


class Recording:
    """The steps so far."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.objects: dict[int, Any] = {}  # what a step gave, where that is no data

    def implementation(self, real: Any) -> Any:
        """A stand-in for an implementation; what is asked of it becomes steps."""
        return _StandIn(self, real, Ref())

    def call(self, target: Ref, method: str, real: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the real thing and note it."""
        kept = tuple(_kept(a) for a in args), {name: _kept(a) for name, a in kwargs.items()}
        given = tuple(_real(a, k) for a, k in zip(args, kept[0]))
        named = {name: _real(a, kept[1][name]) for name, a in kwargs.items()}
        number = len(self.steps)
        self.steps.append(Step(target, method, *kept, {}))
        try:
            result = real(*given, **named)
        except Exception as error:
            self.steps[number] = Step(target, method, *kept, {}, raised=type(error).__name__)
            raise
        changed = tuple(name for name, before in kept[1].items() if _has_changed(named[name], before))
        self.steps[number] = Step(target, method, *kept, numbers_of(result), changed)
        shown = self._shown(result, Ref(number))
        if not is_data(result):
            self.objects[number] = shown
        return shown

    def read(self, real: Any, name: str) -> Any:
        """An attribute of the real thing."""
        return getattr(real, name)

    def _shown(self, value: Any, ref: Ref) -> Any:
        """The value itself where it is data, stand-ins for the objects in it."""
        if is_data(value):
            return value
        if isinstance(value, tuple):
            return tuple(self._shown(item, ref.item(i)) for i, item in enumerate(value))
        return _StandIn(self, value, ref)


class Watching(Recording):
    """Puts something around every call and every attribute that is read; notes no steps."""

    def __init__(self, around: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self.around = around

    def call(self, target: Ref, method: str, real: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the real thing."""
        given = tuple(_real(a, a) for a in args)
        named = {name: _real(a, a) for name, a in kwargs.items()}
        with self.around():
            result = real(*given, **named)
        return self._shown(result, target)

    def read(self, real: Any, name: str) -> Any:
        """An attribute of the real thing."""
        with self.around():
            return getattr(real, name)


class _StandIn:
    def __init__(self, recording: Recording, real: Any, ref: Ref) -> None:
        self.__dict__.update(_recording=recording, _object=real, _ref=ref)

    def __getattr__(self, name: str) -> Any:
        value = self._recording.read(self._object, name)
        if inspect.isroutine(value) or isinstance(value, partial):
            return partial(self._recording.call, self._ref, name, value)
        return self._recording._shown(value, self._ref.attribute(name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._object, name, value)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._recording.call(self._ref, "__call__", self._object, *args, **kwargs)


def is_data(value: Any) -> bool:
    """Numbers, words, arrays, and collections of them."""
    if isinstance(value, Mapping):
        return all(is_data(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(is_data(item) for item in value)
    return isinstance(value, PLAIN)


def numbers_of(value: Any, suffix: str = "") -> dict[str, Array]:
    """Copies of all numbers in a result, by the Python expression that leads to them."""
    if isinstance(value, np.ndarray | np.generic | bool | int | float):
        array = np.array(value)
        return {suffix: array} if array.dtype.kind in "fiub" else {}
    if isinstance(value, Mapping):
        parts = [(f"{suffix}[{name!r}]", item) for name, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{suffix}[{i}]", item) for i, item in enumerate(value)]
    elif all(isinstance(getattr(value, name, None), Mapping) for name in ("inputs", "parameters")):
        parts = [(f"{suffix}.{name}", getattr(value, name)) for name in ("inputs", "parameters")]
    else:
        return {}
    return {place: array for where, item in parts for place, array in numbers_of(item, where).items()}


def _kept(value: Any) -> Any:
    """An argument as it was before the call, with references in place of stand-ins."""
    if isinstance(value, _StandIn):
        return value._ref
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {name: _kept(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_kept(item) for item in value)
    if isinstance(value, Iterator):
        return Once([_kept(item) for item in value])
    return value


def _real(value: Any, kept: Any) -> Any:
    """An argument as the implementation gets it."""
    if isinstance(value, _StandIn):
        return value._object
    if isinstance(kept, Once):
        return iter([_real(item, item) for item in kept.items])
    if isinstance(value, list | tuple) and not is_data(value):
        return type(value)(_real(a, k) for a, k in zip(value, kept))
    return value


def _has_changed(now: Any, before: Any) -> bool:
    return isinstance(before, np.ndarray) and not np.array_equal(
        now, before, equal_nan=before.dtype.kind == "f"
    )


@dataclass(frozen=True)
class Answer:
    """What an implementation says to a step: numbers by their place, or the class of what it raised."""

    values: Mapping[str, Array]
    raised: str = ""


def answers(steps: Sequence[Step], implementation: Any) -> Iterator[tuple[int, Answer]]:
    """What another implementation says to each step, asked as the answers are taken."""
    with ExitStack() as stack:
        asked = Asked(implementation, stack)
        for number, step in enumerate(steps):
            yield number, asked.answer(number, step)


class Asked:
    """An implementation that steps are put to, with what it gave for the steps before."""

    def __init__(self, implementation: Any, stack: ExitStack) -> None:
        self._implementation, self._stack = implementation, stack
        self._results: dict[int, Any] = {}
        self._folders: dict[str, str] = {}

    def answer(self, number: int, step: Step) -> Answer:
        """What it says to a step; the result stands under its number for the steps that follow."""
        try:
            target = self._resolved(step.target)
            function = target if step.method == "__call__" else getattr(target, step.method)
            args = [self._resolved(a) for a in step.args]
            kwargs = {name: self._resolved(a) for name, a in step.kwargs.items()}
            if step.method in ("save", "load"):
                args = [_own_folder(a, self._folders, self._stack) for a in args]
            self._results[number] = function(*args, **kwargs)
            return Answer(numbers_of(self._results[number]))
        except Exception as error:
            return Answer({}, raised=type(error).__name__)

    def _resolved(self, value: Any) -> Any:
        return _resolved(value, self._results, self._implementation)


def asked_again(steps: Sequence[Step], implementation: Any) -> list[Mapping[str, Array] | None]:
    """The numbers another implementation gives in each step; None where it raises or cannot be asked."""
    return [None if answer.raised else answer.values for _, answer in answers(steps, implementation)]


def _own_folder(value: Any, folders: dict[str, str], stack: ExitStack) -> Any:
    """A directory of its own for each that was named: the one of the run may be gone, or held by others."""
    if not isinstance(value, str):
        return value
    if value not in folders:
        folders[value] = stack.enter_context(TemporaryDirectory())
    return folders[value]


def _resolved(value: Any, results: Mapping[int, Any], implementation: Any) -> Any:
    if isinstance(value, Ref):
        found = implementation if value.step is None else results[value.step]
        for kind, key in value.path:
            found = getattr(found, key) if kind == "attribute" else found[key]
        return found
    if isinstance(value, Once):
        return iter(_resolved(value.items, results, implementation))
    if isinstance(value, Mapping):
        return {name: _resolved(item, results, implementation) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_resolved(item, results, implementation) for item in value)
    return value.copy() if isinstance(value, np.ndarray) else value
