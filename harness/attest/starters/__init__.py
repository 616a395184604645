"""Plugin files that `attest new` copies: each runs at once."""

from __future__ import annotations

from importlib.resources import files

FRAMEWORKS = ("numpy", "torch")


def starter(framework: str, name: str) -> str:
    """The text of a plugin whose implementation has this name."""
    text = files(__package__).joinpath(f"{framework}_plugin.txt").read_text(encoding="utf-8")
    return text.replace("@name@", name)
