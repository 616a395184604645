"""The side of the implementation: answers questions about it, one after the other, until there are no more.

Objects stay here and go out as numbers. Arrays that came in or went out are kept as long as the other side
holds its copy: what is written into one is then written into the other, as if both were one array.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from attest.adapters.triton import repair_if_interpreted
from attest.contract import OPERATIONS, Config, Gradients
from attest.registry import BrokenPlugin, Request, class_name, import_plugin, load, printable
from attest.sealed.process_state import bytecodes_here, flops_here, state_here, stir_here
from attest.sealed.wire import SHORT, Arena, Bytes, Gone, Pipe, copied, described, rebuilt, stretch

METHODS = (
    "parameters", "load", "buffers", "train", "eval", "gradients", "encode", "decode", "start", "step",
    "reorder", "rewind", "packed", "accumulate", "fit", "evaluate", "save", "compile_report",
)  # fmt: skip
CLAIMS = ("supports", "only", "families", "padding", "backends", "computes", "batch_invariant")
DECLARED = ("name", "description", "dtypes", "devices", "packages", "wider_bounds", "options", *CLAIMS)
DEEPEST = 12  # levels of lists in lists that are written out
LONGEST_ERROR = 20_000
WASTEFUL = 4096  # bytes between the elements of a view beyond which its elements are sent alone


class CallbackFailed(AssertionError):
    """Something of the caller's raised; the caller knows what."""


class Inside:
    """The objects and arrays that the other side knows, by number."""

    def __init__(self, pipe: Pipe, arena: Arena) -> None:
        self.pipe, self.arena = pipe, arena
        self.objects: dict[int, Any] = {}
        self.arrays: dict[int, tuple[Any, Bytes | None]] = {}
        self.numbers: dict[int, int] = {}  # of arrays, by their id
        self.fresh: list[tuple[int, int, int]] = []  # arrays that the question gave: number, place, size
        self.last = 0
        self.watched = ""
        self.count = 0

    def serve(self) -> None:
        """Until the other side is gone."""
        while True:
            try:
                self.pipe.send(self._answer(*self.pipe.receive()))
            except Gone:
                return

    def _answer(
        self, freed: list[int], before: list[list[Any]], pushed: list[list[int]], name: str, *parts: Any
    ) -> list[Any]:
        self.arena.reset()
        self._free(freed)
        self.fresh = []
        for number, at, size in pushed:
            self._write(number, at, size)
        for number, method in before:  # no result is awaited; what is raised is this question's answer
            outcome = self._outcome(_call, (number, method, [], {}))
            if outcome[0] != "ok":
                return [outcome, self._changed()]
        return [self._outcome(_ACTIONS[name], parts), self._changed()]

    def _outcome(self, action: Callable[..., Any], parts: tuple[Any, ...]) -> list[Any]:
        try:
            result = action(self, *parts)
        except BaseException as error:
            return ["raised", *_error(error)]
        try:
            return ["ok", self.encode(result)]
        except MemoryError as error:
            return ["raised", *_error(error)]
        except (
            BaseException
        ) as error:  # a mapping of the implementation's own may do anything when it is read
            return ["unreadable", *_error(error)]

    def _free(self, freed: list[int]) -> None:
        for number in freed:
            self.objects.pop(number, None)
            held = self.arrays.pop(number, None)
            if held is not None:
                self.numbers.pop(id(held[0]), None)

    def _write(self, number: int, at: int, size: int) -> None:
        """What the caller has made of its copy."""
        array, raw = self.arrays[number]
        given = self.arena.look(at, size)
        self.fresh.append((number, at, size))
        if array.flags.writeable and not _same(_content(array, raw), given):
            _put(array, raw, given)

    def _changed(self) -> list[list[int]]:
        """The arrays of the question that are no longer as they were given."""
        found = []
        for number, at, size in self.fresh:
            array, raw = self.arrays[number]
            now = _content(array, raw)
            if array.flags.writeable and not _same(now, self.arena.look(at, size)):
                found.append([number, *self.arena.put(now)])
        return found

    def _number(self) -> int:
        self.last -= 1
        return self.last

    def encode(self, value: Any, depth: int = 0) -> Any:
        """A value as JSON: data as it is, anything else as the number of an object."""
        kind = type(value)
        if value is None or kind in (bool, str, float):
            return value
        if kind is int:
            return value if value.bit_length() < 1000 else self._object(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return self._scalar(value)
        if kind is Gradients:
            return [
                "gradients",
                self.encode(value.inputs, depth + 1),
                self.encode(value.parameters, depth + 1),
            ]
        if depth < DEEPEST and isinstance(value, Mapping):
            return {str(name): self.encode(item, depth + 1) for name, item in value.items()}
        if depth < DEEPEST and kind in (list, tuple):
            return [kind.__name__, [self.encode(item, depth + 1) for item in value]]
        return self._object(value)

    def _object(self, value: Any) -> list[Any]:
        number = self._number()
        self.objects[number] = value
        methods = [name for name in METHODS if callable(_attribute(value, name))]
        module = type.__dict__["__module__"].__get__(type(value))
        return ["object", number, str(module), class_name(type(value)), callable(value), methods]

    def _scalar(self, value: Any) -> list[Any]:
        if value.dtype.kind not in "fiubc":
            return self._object(value)
        return ["scalar", value.dtype.str, value.tobytes().hex()]

    def _array(self, value: Any) -> list[Any]:
        """A new number and the bytes, or the number of an array that the caller has already."""
        if id(value) in self.numbers:
            number = self.numbers[id(value)]
            return ["again", number, *self.arena.put(_content(*self.arrays[number]))]
        array = value if type(value) is np.ndarray else np.ndarray.view(value, np.ndarray)
        if array.dtype.kind not in "fiubc":
            plain = array.dtype.kind in "SUMm" and not array.dtype.hasobject
            return ["odd", array.dtype.str if plain else ""]
        shared = self._within_given(array)
        if shared:
            return shared
        number = self._number()
        raw, first = stretch(array)
        held: Bytes | None = raw
        if raw.size > 2 * array.nbytes + WASTEFUL:
            dense = np.array(array, order="C")
            (raw, first), held = stretch(dense), None
            text = described(dense, first)
            text[-1] = array.flags.writeable
        else:
            text = described(array, first)
        self.arrays[number], self.numbers[id(value)] = (value, held), number
        return ["array", number, text, *self.arena.put(raw)]

    def _within_given(self, array: Any) -> list[Any]:
        """A result that is a view of what was given, as a view of it; empty where it is none."""
        for number, _, _ in self.fresh:
            given, raw = self.arrays[number]
            if raw is not None and np.may_share_memory(given, array) and np.shares_memory(raw, array):
                bounds = raw.__array_interface__["data"][0]
                first = array.__array_interface__["data"][0] - bounds
                return [
                    "view",
                    number,
                    [array.dtype.str, list(array.shape), list(array.strides), first, 0, True],
                ]
        return []

    def decode(self, value: Any) -> Any:
        """What the other side has written."""
        if isinstance(value, dict):
            return {name: self.decode(item) for name, item in value.items()}
        if not isinstance(value, list):
            return value
        return _READ[value[0]](self, *value[1:])

    def _given_array(self, number: int, description: list[Any], at: int, size: int) -> Any:
        raw = copied(self.arena.look(at, size), description[4])
        array = rebuilt(description, raw)
        self.arrays[number], self.numbers[id(array)] = (array, raw), number
        self.fresh.append((number, at, size))
        return array

    def ask(self, *question: Any) -> Any:
        """Ask the caller for the next item of an iterator, or to call a function of its own."""
        self.pipe.send([["ask", *question], []])
        outcome, *answer = self.pipe.receive()
        if outcome == "stop":
            raise StopIteration
        if outcome != "ok":
            raise CallbackFailed
        return self.decode(answer[0])

    def observed(self, call: Callable[[], Any]) -> Any:
        """The result of a call, counted where the other side wants to know its cost."""
        if not self.watched:
            return call()
        self.count, result = (bytecodes_here if self.watched == "bytecodes" else flops_here)(call)
        return result


class Once(Iterator[Any]):
    """An iterator of the caller's."""

    def __init__(self, inside: Inside, number: int) -> None:
        self._inside, self._number = inside, number

    def __next__(self) -> Any:
        return self._inside.ask("next", self._number)


def _callback(inside: Inside, number: int) -> Callable[..., Any]:
    return lambda *args: inside.ask("call", number, inside.encode(list(args)))


@cache
def _config(text: str) -> Config:
    given = json.loads(text)
    return Config(**{**given, "options": tuple(map(tuple, given["options"]))})


_READ: dict[str, Callable[..., Any]] = {
    "list": lambda inside, items: [inside.decode(item) for item in items],
    "tuple": lambda inside, items: tuple(inside.decode(item) for item in items),
    "array": Inside._given_array,
    "known": lambda inside, number: inside.arrays[number][0],
    "scalar": lambda inside, dtype, text: np.frombuffer(bytes.fromhex(text), dtype)[0],
    "config": lambda inside, text: _config(text),
    "object": lambda inside, number: inside.objects[number],
    "iterator": Once,
    "function": _callback,
}


def _call(inside: Inside, number: int, method: str, args: list[Any], named: dict[str, Any]) -> Any:
    target = inside.objects[number]
    function = getattr(target, method) if method else target
    given, keywords = [inside.decode(a) for a in args], {n: inside.decode(a) for n, a in named.items()}
    return inside.observed(lambda: function(*given, **keywords))


def _watch(inside: Inside, what: str) -> int:
    """Count from now on; what the last call has cost."""
    inside.watched = what
    return inside.count


def _state(inside: Inside) -> dict[str, str]:
    return {name: hashlib.blake2b(repr(x).encode()).hexdigest() for name, x in state_here().items()}


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _get(inside: Inside, number: int, name: str) -> Any:
    return getattr(inside.objects[number], name)


def _open(inside: Inside, given: dict[str, Any], options: Any) -> Any:
    """Import the plugin; what each of its implementations declares, with the object's number."""
    request = Request(
        given["text"], given["target"], given["factory"], tuple(map(tuple, inside.decode(options)))
    )
    module = import_plugin(request)
    found = [_declared(i) for i in load(request)]
    repair_if_interpreted()
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)  # tiny tensors on several threads are slower, and sum in another order
    return {"milestones": callable(getattr(module, "attest_milestones", None)), "found": found}


def _declared(implementation: Any) -> dict[str, Any]:
    said = {name: getattr(implementation, name, None) for name in DECLARED}
    said["known_failures"] = [
        [str(getattr(known, name)) for name in ("criterion", "reason", "link", "witness")]
        for known in getattr(implementation, "known_failures", None) or ()
    ]
    policy = getattr(implementation, "shape_policy", None)
    names = ("min_size", "one_config", "always_mask")
    said["shape_policy"] = policy and {n: getattr(policy, n) for n in names if hasattr(policy, n)}
    said["compiled"] = bool(getattr(implementation, "compiled", False))
    said["offers"] = [name for name in OPERATIONS if callable(getattr(implementation, name, None))]
    said["object"] = _Kept(implementation)
    return said


class _Kept:
    """An implementation on its way out: never written out as data, whatever it is."""

    def __init__(self, implementation: Any) -> None:
        self.implementation = implementation

    def __getattr__(self, name: str) -> Any:
        return getattr(self.implementation, name)


_ACTIONS: dict[str, Callable[..., Any]] = {
    "open": _open,
    "call": _call,
    "get": _get,
    "float": lambda inside, number: float(inside.objects[number]),
    "state": _state,
    "stir": lambda inside: stir_here(),
    "watch": _watch,
}


def _error(error: BaseException) -> list[Any]:
    """Class, the nearest classes of Python's own, text, and of an exit its code."""
    try:
        text = str(error)[:LONGEST_ERROR]
    except Exception:
        text = None
    above: tuple[type, ...] = type.__dict__["__mro__"].__get__(type(error))
    bases = [class_name(base) for base in above if vars(builtins).get(class_name(base)) is base]
    code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int | str) else None
    broken = isinstance(error, BrokenPlugin)
    return [printable(class_name(type(error)))[:100], bases, text, code, broken]


def _content(array: Any, raw: Bytes | None) -> Bytes:
    return raw if raw is not None else np.array(array, order="C").reshape(-1).view(np.uint8)


def _put(array: Any, raw: Bytes | None, given: Bytes) -> None:
    if raw is not None:
        raw[:] = given
    else:
        array[...] = np.frombuffer(given.tobytes(), array.dtype).reshape(array.shape)


def _same(one: Bytes, other: Bytes) -> bool:
    if one.size != other.size:
        return False
    return one.tobytes() == other.tobytes() if one.size <= SHORT else bool((one == other).all())


def serve(reading: int, writing: int, memory: int) -> None:
    """Answer until the other side closes the pipe."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    arena = Arena(memory, half=1)
    os.close(memory)
    Inside(Pipe(reading, writing), arena).serve()
    os._exit(0)  # a thread or an exit handler of the implementation shall not hold the process
