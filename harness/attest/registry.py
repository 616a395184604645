"""Find implementations: a registered name, `package.module:factory`, or `path/to/file.py[:factory]`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from attest.contract import OPERATIONS, PROJECT, Config, Hooks
from attest.declared import misdeclared
from attest.outcomes import Timeout

NAME_RULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
HOOK = "attest_implementations"
RUN_OPTIONS = ("dtype", "device")  # options after a comma that are read by the run itself
DOORS = {"hf": "attest_impls.huggingface"}  # hf:llama is the factory `llama` of that module


class UsageError(ValueError):
    """The request cannot be understood; the message says what to type instead."""


class BrokenPlugin(ValueError):
    """The plugin was found but cannot be used; the message says why in one sentence."""


@dataclass(frozen=True)
class Request:
    """What one --impl asks for."""

    text: str
    target: str
    factory: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_file(self) -> bool:
        """Whether the target is a path."""
        return self.target.endswith(".py") or "/" in self.target or "\\" in self.target

    @property
    def is_registered(self) -> bool:
        """Whether the target is the name of an entry point."""
        return self.factory is None and self.target in registered_names()


def registered() -> dict[str, EntryPoint]:
    """Entry points of the group `attest`, by name; nothing is imported."""
    return {point.name: point for point in entry_points(group=PROJECT)}


def registered_names() -> list[str]:
    """The names `--impl` takes as they are."""
    return sorted(registered())


def parse_request(text: str) -> Request:
    """Read one value of --impl; UsageError where it names nothing."""
    request = read_request(text)
    _check_exists(request)
    _check_options(request)
    return request


def read_request(text: str) -> Request:
    """What one value of --impl says, whether or not it is there."""
    head, *pairs = text.split(",")
    options = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise UsageError(
                f"--impl={text!r} has the option {pair!r}; write options as name=value after a comma"
            )
        options.append((key, value))
    if not head.strip():
        raise UsageError(
            f"--impl={text!r} names nothing; use one of {_known()}, a file.py or package.module:factory"
        )
    target, colon, factory = head.partition(":")
    target = DOORS.get(target, target) if colon else target
    return Request(text, target, factory if colon else None, tuple(options))


def _check_options(request: Request) -> None:
    """A field of the config is drawn by every case; an implementation would pass over it in silence."""
    for name, value in request.options:
        if name in Config.__dataclass_fields__ and name not in RUN_OPTIONS:
            raise UsageError(
                f"--impl option {name}={printable(value)!r} is a field of the config, which cases draw and "
                "--impl cannot set; leave it out"
            )


def _check_exists(request: Request) -> None:
    if request.is_file:
        _check_file(request)
    elif request.target == DOORS["hf"]:
        _check_family(request)
    elif request.factory is None and request.target not in registered():
        near = difflib.get_close_matches(request.target, registered_names(), 1, 0.6)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"use one of {_known()}, a file.py or package.module:factory"
        )
        raise UsageError(f"--impl={printable(request.text)} is not a registered implementation; {hint}")
    elif request.factory is not None and not _is_module(request.target):
        raise UsageError(
            f"--impl={printable(request.text)} names a module that is not installed; check its name"
        )


def _check_family(request: Request) -> None:
    """A class of transformers: a family there is, and an attention that it has."""
    from attest.families import family_named

    family = family_named(request.factory or "")
    attention, known = dict(request.options).get("attention"), family.huggingface.attentions
    if attention not in (None, *known):
        raise UsageError(
            f"--impl={printable(request.text)} asks for an attention that {family.huggingface.model} "
            f"does not have; use one of {', '.join(known)}"
        )
    if not _is_module("transformers"):
        raise UsageError(
            f"--impl={printable(request.text)} needs transformers, which is not installed; "
            "pip install 'attest-transformers[peers]'"
        )


def _check_file(request: Request) -> None:
    path, shown = Path(request.target), printable(request.text)[:300]
    try:
        if path.is_dir():
            raise UsageError(f"--impl={shown} is a directory; name a Python file in it")
        if not path.is_file():
            raise UsageError(f"--impl={shown} does not exist; check the path")
    except OSError as error:
        raise UsageError(f"--impl={shown} cannot be read ({error.strerror}); check the path") from None
    if path.suffix != ".py":
        raise UsageError(f"--impl={shown} is not a Python file; name a file ending in .py")
    if path.stem in sys.stdlib_module_names:
        raise UsageError(f"--impl={shown} has the name of a module of Python; rename it")


def _is_module(name: str) -> bool:
    """Whether its package can be found; only a plugin that is there can be broken."""
    _look_here_too()
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _look_here_too() -> None:
    """A package in the working directory counts, after all that is installed: it can shadow nothing."""
    with suppress(OSError):  # the directory was deleted
        here = os.getcwd()
        if here not in sys.path:
            sys.path.append(here)


def load(request: Request) -> list[Any]:
    """Import the plugin and return its implementations; BrokenPlugin with one sentence where it cannot."""
    source = printable(request.target)
    module = import_plugin(request)
    door = _door(request, module, source)
    made = call_door(door, source, "making the implementations")
    found = call_door(lambda: _listed(made, request, source), source, "reading the list of implementations")
    implementations = [_checked(i, source) for i in found]
    for implementation in implementations:
        if request.options:
            _set_options(implementation, request.options)
    if request.is_registered:
        return [i for i in implementations if i.name == request.target] or implementations
    return implementations


def offered(implementation: Any) -> list[str]:
    """The operations an implementation has."""
    return [name for name in OPERATIONS if callable(getattr(implementation, name, None))]


def class_name(kind: type) -> str:
    """The name that Python keeps for a class, whose metaclass may say anything, or raise."""
    return str(type.__dict__["__name__"].__get__(kind))


def printable(text: str) -> str:
    """Text with terminal escapes and other control characters made visible."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def import_plugin(request: Request) -> ModuleType:
    """The module behind a request; BrokenPlugin with one sentence where it cannot be imported."""
    source = printable(request.target)
    try:
        if request.is_file:
            return _import_file(Path(request.target).resolve())
        if request.is_registered:
            loaded = registered()[request.target].load()
            if not isinstance(loaded, ModuleType):
                raise BrokenPlugin(
                    f"{source}: its entry point is not a module; point it at the plugin's module"
                )
            return loaded
        _look_here_too()
        return importlib.import_module(request.target)
    except (BrokenPlugin, KeyboardInterrupt, Timeout):
        raise
    except BaseException as error:  # whatever a plugin raises while it is imported makes it a broken one
        raise BrokenPlugin(
            f"{source}: cannot be imported ({sentence(error)}); run it with python to see why"
        ) from error


def _import_file(path: Path) -> ModuleType:
    name = f"attest_plugin_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _door(request: Request, module: ModuleType, source: str) -> Callable[[], Any]:
    if request.factory is not None:
        factory = getattr(module, request.factory, None)
        if not callable(factory):
            raise BrokenPlugin(f"{source}: has no function {printable(request.factory)!r}; name one it has")
        door: Callable[[], Any] = factory
        return door
    if not callable(getattr(module, HOOK, None)):
        raise BrokenPlugin(
            f"{source}: has no function {HOOK}(); add one that returns a list of implementations"
        )
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(Hooks)
    try:
        manager.register(module)
    except pluggy.PluginValidationError as error:
        raise BrokenPlugin(
            f"{source}: {HOOK} has another signature ({sentence(error)}); take no arguments"
        ) from None
    if manager.hook.attest_implementations.get_hookimpls():
        # pluggy drops a hook's None and then has no result at all
        return lambda: next(iter(manager.hook.attest_implementations()), None)
    unmarked: Callable[[], Any] = getattr(module, HOOK)
    return unmarked


def call_door(door: Callable[[], Any], source: str, doing: str) -> Any:
    """What a plugin's function returns; BrokenPlugin where it raises."""
    try:
        return door()
    except (BrokenPlugin, KeyboardInterrupt, Timeout):
        raise
    except BaseException as error:
        raise BrokenPlugin(f"{source}: {doing} raised {sentence(error)}") from error


def _listed(found: Any, request: Request, source: str) -> list[Any]:
    """What a hook or a factory gave, as a list of our own."""
    door = f"{request.factory or HOOK}()"
    if request.factory is not None and hasattr(found, "name"):
        return [found]
    if found is None:
        raise BrokenPlugin(f"{source}: {door} returned None; return a list of implementations")
    if not isinstance(found, list | tuple):
        kind = class_name(type(found))
        raise BrokenPlugin(f"{source}: {door} returned one object ({kind}); return a list of implementations")
    if not found:
        raise BrokenPlugin(f"{source}: {door} returned an empty list; return at least one implementation")
    return [*found]


def _checked(implementation: Any, source: str) -> Any:
    """The implementation, if its name and declarations can be used."""
    try:
        fault = _unnamed(implementation) or misdeclared(implementation)
    except Exception as error:  # an attribute that is computed may do anything
        fault = f"reading its name and declarations raised {sentence(error)}"
    if fault:
        raise BrokenPlugin(f"{source}: {printable(fault)}")
    return implementation


def _unnamed(implementation: Any) -> str:
    name = getattr(implementation, "name", None)
    if not isinstance(name, str):
        kind = class_name(type(implementation))
        return f"an implementation ({kind}) has no name; give it a string `name`"
    if not NAME_RULE.fullmatch(name):
        rule = "use letters, digits, dot, dash or underscore, 64 at most"
        return f"name={name!r} cannot name a report; {rule}"
    return ""


def _set_options(implementation: Any, options: tuple[tuple[str, str], ...]) -> None:
    kept = tuple(pair for pair in options if pair[0] not in RUN_OPTIONS)
    if kept:
        implementation.options = kept


def sentence(error: BaseException) -> str:
    """An exception in one line, even one that cannot say what it is."""
    try:
        text = " ".join(printable(" ".join(str(error).split())).split())[:300]
    except Exception:
        text = "its text cannot be read"
    name = printable(class_name(type(error)))[:100]
    return f"{name}: {text}" if text else name


def _known() -> str:
    return ", ".join(registered_names())
