"""`attest new`: a plugin file that runs at once."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import click

from attest.starters import FRAMEWORKS, starter


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@click.option("--framework", type=click.Choice(FRAMEWORKS), help="[default: torch where it is installed]")
def command(name: str, framework: str | None) -> None:
    """Write NAME.py, a plugin with a working attention, to build on step by step."""
    from attest.registry import NAME_RULE

    name = name.removesuffix(".py")
    if not NAME_RULE.fullmatch(name):
        raise click.UsageError(
            f"name={name!r} cannot name a report; use letters, digits, dot, dash or underscore"
        )
    if not Path(f"{name}.py").exists() and (name in sys.stdlib_module_names or find_spec(name)):
        raise click.UsageError(f"{name}.py would hide the module {name}; choose another name")
    path = Path(f"{name}.py")
    text = starter(framework or ("torch" if find_spec("torch") else "numpy"), name)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{path} exists already; choose another name or move it away") from None
    except OSError as error:
        raise click.UsageError(
            f"{path} cannot be written ({error.strerror}); choose another directory"
        ) from None
    click.echo(f"{path} written; next: pytest --impl={path}")
