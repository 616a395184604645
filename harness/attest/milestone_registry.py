"""Which milestones there are: those of this package and of plugins, all through `attest_milestones()`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from attest.contract import Milestone, register_operation
from attest.registry import BrokenPlugin, Request, call_door, import_plugin, printable, sentence

HOOK = "attest_milestones"
OURS = "attest.milestones"  # imported by its name: it is far above this module
PARTS = ("properties", "defects", "variants")
_brought: dict[Path, Milestone] = {}


def milestones() -> tuple[Milestone, ...]:
    """Those of this package, then those that plugins brought into this process."""
    return (*_ours(), *_brought.values())


@cache
def _ours() -> tuple[Milestone, ...]:
    return tuple(milestones_of(importlib.import_module(OURS), OURS))


def bring_milestones(request: Request) -> list[Milestone]:
    """Import a plugin and take in its milestones: operations at once, the rest when it is asked for."""
    source = printable(request.target)
    found = milestones_of(import_plugin(request), source)
    for milestone in found:
        if milestone.file not in _brought:
            _register_operations(milestone, source)
            _brought[milestone.file] = milestone
    return found


def _register_operations(milestone: Milestone, source: str) -> None:
    for record in milestone.operations:
        try:
            register_operation(record)
        except (ValueError, TypeError, AttributeError) as error:
            raise BrokenPlugin(f"{source}: its operation cannot be used ({sentence(error)})") from error


def milestones_of(module: ModuleType, source: str) -> list[Milestone]:
    """What the hook of a module returns, each file there; BrokenPlugin with one sentence where it is not."""
    hook = getattr(module, HOOK, None)
    found = call_door(hook, source, "listing the milestones") if callable(hook) else []
    if not isinstance(found, list | tuple):
        raise BrokenPlugin(f"{source}: {HOOK}() returned no list; return a list of attest.Milestone")
    return [_checked(entry, source) for entry in found]


def _checked(entry: Any, source: str) -> Milestone:
    if isinstance(entry, tuple) and len(entry) == 2 and all(isinstance(e, str | Path) for e in entry):
        entry = Milestone(spec=entry[0], properties=str(entry[1]))
    if not isinstance(entry, Milestone):
        kind = type(entry).__name__
        raise BrokenPlugin(f"{source}: {HOOK}() has an entry of type {kind}; use attest.Milestone(spec=...)")
    if not entry.file.is_file():
        raise BrokenPlugin(f"{source}: {HOOK}() names {printable(str(entry.file))}, which is not a file")
    return entry


def check_parts(found: Iterable[Milestone], source: str) -> None:
    """BrokenPlugin when a module of a milestone cannot be imported."""
    for milestone in found:
        for part in PARTS:
            try:
                _import_all(milestone.part(part))
            except (Exception, SystemExit) as error:
                name = printable(milestone.part(part))
                raise BrokenPlugin(f"{source}: {name} cannot be imported ({sentence(error)})") from error


def load_parts(*parts: str) -> None:
    """Import every module of these parts of every milestone. Importing one registers what it holds."""
    for milestone in milestones():
        for part in parts:
            _import_all(milestone.part(part))


def _import_all(name: str) -> None:
    """A module, or a package with all that it holds: no file is left out by its name."""
    if name:
        _import_below(importlib.import_module(name))


@cache  # every trial of the self-test asks for all properties; a module imported anew is walked anew
def _import_below(module: ModuleType) -> None:
    for found in walk_packages(getattr(module, "__path__", ()), f"{module.__name__}.", onerror=_raise):
        importlib.import_module(found.name)


def _raise(name: str) -> None:
    """walk_packages would pass over a package that cannot be imported."""
    importlib.import_module(name)


def files_not_loaded() -> list[Path]:
    """Files in the folders of milestones that no import reached, as below a folder without __init__.py."""
    load_parts(*PARTS)
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    loaded = {Path(file).resolve() for file in files if file}
    packages = [OURS, *(m.part(part) for m in _brought.values() for part in PARTS if m.part(part))]
    folders = [Path(p).resolve() for name in packages for p in getattr(sys.modules[name], "__path__", ())]
    return [file for folder in folders for file in sorted(folder.rglob("*.py")) if file not in loaded]
