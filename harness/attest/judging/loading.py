"""Import the milestones of this package. Importing a module of one registers what it holds."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import walk_packages


@cache
def load_milestones(*parts: str) -> tuple[str, ...]:
    """Import every module of these parts (properties, defects, variants) of every milestone; their names.

    No name is left out by its beginning: a file that is there is loaded.
    """
    package = import_module("attest.milestones")
    found = [module.name for module in walk_packages(package.__path__, f"{package.__name__}.")]
    chosen = tuple(name for name in found if set(name.split(".")[3:4]) & set(parts))
    for name in chosen:
        import_module(name)
    return chosen
