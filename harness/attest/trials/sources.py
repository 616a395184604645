"""The source files of an implementation, and importing it with some of them changed."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import attest
from attest.registry import UsageError, load, parse_request, printable, registered


@dataclass(frozen=True)
class Package:
    """An implementation as --impl names it, and the files it is written in."""

    request: str
    root: Path
    files: tuple[Path, ...]

    def path(self, name: str) -> Path:
        """A file by its name relative to the package."""
        return self.root / name


def package_of(request: str) -> Package:
    """The package or file behind a request; what it imports from elsewhere does not belong to it."""
    asked = parse_request(request)
    if asked.is_file:
        path = Path(asked.target).resolve()
        return Package(request, path.parent, (path,))
    module = registered()[asked.target].module if asked.is_registered else asked.target
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        raise UsageError(f"--impl={printable(request)} has no Python source; name one that has")
    origin = Path(found.origin).resolve()
    if found.submodule_search_locations is None:
        return Package(request, origin.parent, (origin,))
    files = sorted(p for p in origin.parent.rglob("*.py") if "__pycache__" not in p.parts)
    return Package(request, origin.parent, tuple(files))


def fingerprint(files: Iterable[Path]) -> str:
    """Twelve digits that change when a file does."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def harness_fingerprint() -> str:
    """The same of everything that judges: neither the commands nor what puts mutants to the criteria."""
    home = Path(attest.__file__).parent
    judging = (p for p in home.rglob("*.py") if not {"trials", "cli"} & set(p.relative_to(home).parts))
    return fingerprint(sorted(judging))


def load_changed(package: Package, changed: Mapping[Path, Callable[[str], ast.Module]]) -> Any:
    """Import the implementation with these files changed. Only for a process that ends with its job.

    The import system is told to compile other code for the same files, so that every way of importing them
    meets the change: relative, absolute, or a plugin in a file.
    """
    ordinary = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        path = Path(self.get_filename(fullname)).resolve()
        if path not in changed:
            return ordinary(self, fullname)
        tree = changed[path](path.read_text(encoding="utf-8"))
        return compile(tree, str(path), "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]
    return load(parse_request(package.request))[0]
