"""The milestones of this package: a folder each, named like its spec file."""

from __future__ import annotations

from pathlib import Path

from attest.contract import Milestone, hookimpl
from attest.spec import spec_directory

PARTS = ("properties", "defects", "variants")


@hookimpl
def attest_milestones() -> list[Milestone]:
    """One for each folder and each spec file: the criteria of a file without a folder have no property."""
    folders = {path.parent.name for path in Path(__file__).parent.glob("*/__init__.py")}
    files = {path.stem for path in spec_directory().glob("*.toml")}
    return [_milestone(name) for name in sorted(folders | files)]


def _milestone(name: str) -> Milestone:
    home = Path(__file__).parent / name
    there = {part for part in PARTS if (home / part).is_dir() or (home / f"{part}.py").is_file()}
    modules = {part: f"{__name__}.{name}.{part}" for part in PARTS if part in there}
    return Milestone(spec=spec_directory() / f"{name}.toml", **modules)
