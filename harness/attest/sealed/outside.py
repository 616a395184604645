"""The side that judges: starts the process of an implementation, asks it, and reads the answers as data.

An object of the implementation is a `Remote` here. An array that was given or received and is still held by
the caller is kept equal on both sides at every question: an implementation that writes into its inputs, hands
out its own memory or keeps what it was given is then seen doing it, as if it ran here.
"""

from __future__ import annotations

import builtins
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from typing import Any, NoReturn

import numpy as np

from attest.contract import Config, Gradients
from attest.outcomes import Ended
from attest.registry import BrokenPlugin, printable
from attest.sealed.shipping import BOOT, environment, package
from attest.sealed.wire import HALF, Arena, Gone, Malformed, Pipe, copied, described, rebuilt, stretch

PLAIN = frozenset({type(None), bool, str, int, float})
_live: list[Channel] = []  # the processes that are open


class Channel:
    """One process and what is asked of it."""

    def __init__(self, forbidden: Sequence[str], scratch: str) -> None:
        self._mirrors: dict[int, weakref.ref[Any]] = {}
        self._numbers: dict[int, int] = {}  # of arrays, by their id
        self._mine: dict[int, Any] = {}  # iterators and functions that a question has given
        self._given: list[Any] = []  # arrays of the question that is being asked
        self._failed: BaseException | None = None
        self.freed: list[int] = []
        self._later: list[list[Any]] = []  # calls that go with the next question
        self._last = 0
        self.questions = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._start(forbidden, scratch)

    def _start(self, forbidden: Sequence[str], scratch: str) -> None:
        memory = os.memfd_create("attest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, 2 * HALF)
        # The other side cannot cut the memory short, which would end this process.
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        theirs_in, writing = os.pipe()
        reading, theirs_out = os.pipe()
        passed = [theirs_in, theirs_out, memory]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", BOOT, *map(str, passed)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(scratch),
            pass_fds=passed,
            start_new_session=True,
        )
        self._pipe, self._arena = Pipe(reading, writing), Arena(memory, half=0)
        for descriptor in passed:
            os.close(descriptor)
        data = memoryview(package(forbidden, scratch))
        with suppress(BrokenPipeError):  # it died; the first answer tells how
            while data:
                data = data[os.write(writing, data) :]
        _live.append(self)

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return self._process is not None

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        _live.remove(self)
        self._pipe.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def ask(self, name: str, *parts: Any) -> Any:
        """The answer; exceptions that the implementation raised are raised here."""
        if self._process is None:
            raise Ended("the implementation has ended its process")
        try:
            raised, result = self._asked(name, parts)
        except Gone:
            raise Ended(f"the implementation {self._how()}") from None
        except (Malformed, LookupError, TypeError, ValueError, AttributeError, RecursionError):
            self.close()
            raise Ended("the implementation wrote into the answers") from None
        except BaseException:  # out of time or memory in the middle of an exchange: what follows is unknown
            self.close()
            raise
        finally:
            self._given, self._mine = [], {}
        if raised is not None:
            raise raised
        return result

    def later(self, remote: Remote, method: str) -> None:
        """Call a method whose result nobody wants, in front of the next question."""
        if not any(number == remote.number and method == other for number, other in self._later):
            self._later.append([remote.number, method])

    def _asked(self, name: str, parts: Sequence[Any]) -> tuple[BaseException | None, Any]:
        self.questions += 1
        self._arena.reset()
        held = [(number, array) for number, ref in self._mirrors.items() if (array := ref()) is not None]
        said = [self._encode(part) for part in parts]
        pushed = [[number, *self._arena.put(stretch(array)[0])] for number, array in held]
        freed, self.freed = self.freed, []
        before, self._later = self._later, []
        self._pipe.send([freed, before, pushed, name, *said])
        outcome, changed = self._pipe.receive()
        while outcome[0] == "ask":
            self._pipe.send(self._answered(*outcome[1:]))
            outcome, changed = self._pipe.receive()
        for number, at, size in changed:
            stretch(self._mirror(number))[0][:] = self._arena.look(at, size)
        if outcome[0] == "ok":
            return None, self._decode(outcome[1])
        error = self._failed if outcome[1] == "CallbackFailed" and self._failed else _error(*outcome[1:])
        self._failed = None
        return (error, None) if outcome[0] == "raised" else (None, Unreadable(error))

    def _answered(self, what: str, number: int, args: Any = None) -> list[Any]:
        """The other side wants the next item of an iterator, or a function of ours called."""
        given = self._mine[number]
        try:
            result = next(given) if what == "next" else given(*self._decode(args))
        except StopIteration:
            return ["stop"]
        except Exception as error:
            self._failed = error
            return ["raised"]
        return ["ok", self._encode(result)]

    def _how(self) -> str:
        assert self._process is not None
        process = self._process
        try:
            how = ended_by(process.wait(5))
        except subprocess.TimeoutExpired:
            how = "closed the pipe of the answers"
        self.close()
        return how

    def _encode(self, value: Any) -> Any:
        """A value as JSON and bytes in the shared memory."""
        if type(value) in PLAIN:
            return value
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, Config):
            return ["config", _config_text(value)]
        if isinstance(value, Mapping):
            return {str(name): self._encode(item) for name, item in value.items()}
        if isinstance(value, _Bare):
            return [self._encode(item) for item in value]
        if isinstance(value, list | tuple):
            return ["list" if isinstance(value, list) else "tuple", [self._encode(item) for item in value]]
        if isinstance(value, np.generic):
            return ["scalar", value.dtype.str, value.tobytes().hex()]
        if isinstance(value, Remote):
            return ["object", value.number]
        return self._own(value)

    def _own(self, value: Any) -> list[Any]:
        """Something that stays here and is asked for from there."""
        self._last += 1
        self._mine[self._last] = value if callable(value) else iter(value)
        return ["function" if callable(value) else "iterator", self._last]

    def _array(self, array: Any) -> list[Any]:
        number = self._numbers.get(id(array))
        if number is not None and self._mirrors[number]() is array:
            return ["known", number]
        self._last += 1
        self._keep(self._last, array)
        raw, first = stretch(array)
        return ["array", self._last, described(array, first), *self._arena.put(raw)]

    def _keep(self, number: int, array: Any) -> None:
        """Remember that the caller has this array, until it drops it."""
        self._given.append(array)
        self._numbers[id(array)] = number
        self._mirrors[number] = weakref.ref(array, partial(self._dropped, number, id(array)))

    def _dropped(self, number: int, identity: int, _: Any) -> None:
        self._mirrors.pop(number, None)
        if self._numbers.get(identity) == number:
            del self._numbers[identity]
        self.freed.append(number)

    def _mirror(self, number: int) -> Any:
        array = self._mirrors[number]()
        if array is None:
            raise Malformed("an array that nobody has")
        return array

    def _decode(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._decode(item) for name, item in value.items()}
        if not isinstance(value, list):
            return value
        return _READ[value[0]](self, *value[1:])

    def _new_array(self, number: int, description: list[Any], at: int, size: int) -> Any:
        array = rebuilt([*description[:5], True], copied(self._arena.look(at, size), description[4]))
        array.flags.writeable = bool(description[5])
        self._keep(number, array)
        return array

    def _same_array(self, number: int, at: int, size: int) -> Any:
        array = self._mirror(number)
        stretch(array)[0][:] = self._arena.look(at, size)
        return array

    def _view(self, number: int, description: list[Any]) -> Any:
        return rebuilt(description, stretch(self._mirror(number))[0])

    def _object(self, number: int, module: str, name: str, called: bool, methods: list[str]) -> Remote:
        made: Remote = _class_of(str(module), str(name), bool(called))(self, int(number), frozenset(methods))
        return made


_READ: dict[str, Callable[..., Any]] = {
    "list": lambda channel, items: [channel._decode(item) for item in items],
    "tuple": lambda channel, items: tuple(channel._decode(item) for item in items),
    "array": Channel._new_array,
    "again": Channel._same_array,
    "view": Channel._view,
    "odd": lambda channel, dtype: np.empty(0, dtype or object),
    "scalar": lambda channel, dtype, text: np.frombuffer(bytes.fromhex(text), dtype)[0],
    "gradients": lambda channel, *parts: Gradients(*map(channel._decode, parts)),
    "object": Channel._object,
}


class Remote:
    """An object of the implementation, known here by its number."""

    def __init__(self, channel: Channel, number: int, methods: frozenset[str]) -> None:
        self.__dict__.update(channel=channel, number=number, methods=methods)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.methods:
            return partial(called, self, name)
        return self.channel.ask("get", self.number, name)

    def __float__(self) -> float:
        return float(self.channel.ask("float", self.number))

    def __del__(self) -> None:
        self.channel.freed.append(self.number)


class Called(Remote):
    """One that can be called."""

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        return called(self, "", *args, **named)


def called(remote: Remote, method: str, /, *args: Any, **named: Any) -> Any:
    """Call a method of an object, or the object itself."""
    channel = remote.channel
    return channel.ask("call", remote.number, method, _Bare(args), named)


class _Bare(tuple[Any, ...]):
    """Arguments, written as a bare list."""


@cache
def _class_of(module: str, name: str, callable_: bool) -> type[Remote]:
    """A class with the name of the object's own, which failures quote."""
    base: type[Remote] = Called if callable_ else Remote
    return type(printable(name)[:100], (base,), {"__module__": printable(module)[:100]})


class Unreadable(Mapping[str, Any]):
    """A result that raised when it was read."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def _raise(self, *_: Any) -> NoReturn:
        raise self._error

    __getitem__ = __len__ = _raise

    def __iter__(self) -> Iterator[str]:
        self._raise()


def _error(name: str, bases: list[str], text: str | None, code: Any, broken: bool) -> BaseException:
    """An exception of the same name, of the nearest class of Python's own, with the same text."""
    if broken:
        return BrokenPlugin(str(text))
    if name in ("KeyboardInterrupt", "SystemExit"):
        return KeyboardInterrupt() if name == "KeyboardInterrupt" else SystemExit(code)
    known = [getattr(builtins, base, None) for base in bases]
    base = next((b for b in known if isinstance(b, type) and issubclass(b, BaseException)), Exception)
    if issubclass(base, BaseExceptionGroup | SystemExit | KeyboardInterrupt):
        base = Exception if issubclass(base, Exception) else BaseException
    return _error_class(str(name), base.__name__)(text)


@cache
def _error_class(name: str, base: str) -> type[BaseException]:
    def start(self: BaseException, text: str | None) -> None:
        self.__dict__["said"] = text

    def say(self: BaseException) -> str:
        if self.__dict__["said"] is None:
            raise RuntimeError("its text cannot be read")
        return str(self.__dict__["said"])

    return type(
        name, (getattr(builtins, base),), {"__init__": start, "__str__": say, "__module__": "builtins"}
    )


def _config_text(config: Config) -> str:
    """Not cached: a config with 16.0 where another has 16 is equal to it."""
    return json.dumps(asdict(config), default=lambda number: number.item())


def ended_by(code: int) -> str:
    """An exit code in words."""
    return f"ended the process by signal {-code}" if code < 0 else f"ended the process with exit code {code}"


def live() -> list[Channel]:
    """The processes that are open."""
    return list(_live)


def processor_seconds() -> float:
    """Of this process and of those that are open, as the kernel counts them."""
    CPU_OF_PROCESS = 2  # the clock of a whole process, made as clock_getcpuclockid(3) does
    theirs = (time.clock_gettime((~channel.pid << 3) | CPU_OF_PROCESS) for channel in _live)
    return time.process_time() + sum(theirs)
