"""`attest docs`: pages made from the spec."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(hidden=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--write", is_flag=True, help="Write docs/debugging.md below the working directory.")
def command(write: bool) -> None:
    """Print docs/debugging.md, or write it."""
    from attest.report.symptoms import debugging_page
    from attest.report.writing import write_text
    from attest.spec import load_spec

    page = debugging_page(load_spec())
    if write:
        write_text(Path("docs/debugging.md"), page)
    else:
        click.echo(page, nl=False)
