"""`attest docs`: pages made from the spec."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(hidden=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--write", is_flag=True, help="Write the page below the working directory.")
@click.option("--reach", is_flag=True, help="docs/reach.md, for which cases are drawn: a minute.")
def command(write: bool, reach: bool) -> None:
    """Print docs/debugging.md, or write it."""
    from attest.report.reach_page import reach_page
    from attest.report.symptoms import debugging_page
    from attest.report.writing import write_text
    from attest.spec import load_spec

    name, make = ("reach", reach_page) if reach else ("debugging", debugging_page)
    page = make(load_spec())
    if write:
        write_text(Path(f"docs/{name}.md"), page)
    else:
        click.echo(page, nl=False)
