"""The `attest` command. Each module of this package is one subcommand, named like it, with a `command`.

A command module imports nothing heavy at the top: `attest list` and `attest explain` answer in half a second.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pkgutil import iter_modules

import click

from attest import __version__


class Commands(click.Group):
    """A group whose subcommands are the modules of this package, imported when asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Module names; an underscore at the end keeps a name from hiding a builtin."""
        return sorted(m.name.rstrip("_") for m in iter_modules(__path__) if not m.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The `command` of one module."""
        for module in iter_modules(__path__):
            if module.name.rstrip("_") == cmd_name:
                found: click.Command = import_module(f"{__name__}.{module.name}").command
                return found
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """An unknown command names the nearest one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else "see `attest --help`"
            ctx.fail(f"command={args[0]!r} is unknown; {hint}")
        return super().resolve_command(ctx, args)


@click.command(
    cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="attest")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Tell whether a Transformer implementation is right, milestone by milestone, and where it is wrong.

    Start with `attest new mine`, then `pytest --impl=mine.py` after every step.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Entry point: what a user did wrong is one sentence and exit code 2, a fault of ours exit code 3."""
    _open_streams()
    stdout = sys.stdout
    os.environ["PYTHONSAFEPATH"] = "1"  # a numbers.py in the working directory must not stop other processes
    try:
        code = cli(prog_name="attest", standalone_mode=False)
    except click.Abort as error:  # click makes one of Ctrl-C, and of an EOFError too
        ended = error.__cause__
        code = _confess(ended) if isinstance(ended, EOFError) else _refuse("interrupted", 130)
    except click.ClickException as error:
        code = _refuse(_sentence(error), 2)
    except SystemExit:  # click makes 1, a verdict here, of a reader that is gone, and wraps the stream
        if sys.stdout is stdout:
            raise
        code = _refuse("the output was closed before its end", 3)
    except OSError as error:
        where = f"{error.filename} cannot be used ({error.strerror})" if error.filename else str(error)
        code = _refuse(f"{where}; check the path", 2)
    except Exception as error:
        codes = {"SpecError": 3, "UsageError": 2, "BrokenPlugin": 2, "ReportError": 2}
        code = codes.get(type(error).__name__, 0)
        code = _refuse(str(error), code) if code else _confess(error)
    sys.exit(code)


def _open_streams() -> None:
    """A standard stream that was closed becomes one to nowhere: the next file would take its number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number that is free


def _confess(error: Exception) -> int:
    """A fault of ours in one sentence; ATTEST_TRACEBACK=1 shows where it happened."""
    if os.environ.get("ATTEST_TRACEBACK"):
        raise error
    what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return _refuse(f"attest failed ({what}); set ATTEST_TRACEBACK=1 to see where, and report it", 3)


def _refuse(sentence: str, code: int) -> int:
    click.echo(f"Error: {sentence}", err=True)
    return code


def _sentence(error: click.ClickException) -> str:
    """click's own complaints get a remedy; ours have one."""
    text = error.format_message()
    if type(error) is click.UsageError or not isinstance(error, click.UsageError) or error.ctx is None:
        return text
    return f"{text.rstrip('.')}; see `{error.ctx.command_path} --help`"
