"""`attest diff`: what changed between two reports."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.pass_context
def command(ctx: click.Context, before: Path, after: Path) -> None:
    """Compare two report.json files: regressions, fixes, new and gone criteria, errors nearer to the bound.

    Exit code 1 when something regressed.
    """
    from attest.report.comparison import compare_files

    comparison = compare_files(before, after)
    for line in comparison.lines():
        click.echo(line)
    ctx.exit(comparison.exit_code)
