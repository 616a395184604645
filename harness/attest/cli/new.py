"""`attest new`: a plugin file that runs at once."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import click

from attest.starters import FRAMEWORKS, family_starter, starter


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@click.option("--framework", type=click.Choice(FRAMEWORKS), help="[default: torch where it is installed]")
@click.option("--family", metavar="FAMILY", help="A port of this family; attest list --families names them.")
def command(name: str, framework: str | None, family: str | None) -> None:
    """Write NAME.py, a plugin with a working attention, to build on step by step.

    With --family the plugin is a small model of that family, to be replaced by yours.
    """
    from attest.registry import NAME_RULE

    name = name.removesuffix(".py")
    if not NAME_RULE.fullmatch(name):
        raise click.UsageError(
            f"name={name!r} cannot name a report; use letters, digits, dot, dash or underscore"
        )
    if not Path(f"{name}.py").exists() and (name in sys.stdlib_module_names or find_spec(name)):
        raise click.UsageError(f"{name}.py would hide the module {name}; choose another name")
    path = Path(f"{name}.py")
    text = (
        _family_text(family, name, framework)
        if family is not None
        else starter(framework or _installed(), name)
    )
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


def _installed() -> str:
    return "torch" if find_spec("torch") else "numpy"


def _family_text(name: str, plugin: str, framework: str | None) -> str:
    from attest.families import family_named
    from attest.registry import UsageError

    try:
        family = family_named(name)
    except UsageError as error:
        raise click.UsageError(str(error)) from None
    if framework == "numpy":
        raise click.UsageError("--family writes torch; leave --framework out")
    return family_starter(family, plugin)
