"""`attest merge`: one report out of several runs of one implementation."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("reports", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write report.json and its pages here instead of printing the JSON.")  # fmt: skip
def command(reports: tuple[Path, ...], output: Path | None) -> None:
    """Combine report.json files of runs that judged different criteria.

    Refuses reports of different implementations or spec versions, and results that disagree.
    """
    from attest.report.merge import merge_files
    from attest.report.writing import as_json, write_document

    document = merge_files(reports)
    if output is None:
        click.echo(as_json(document), nl=False)
        return
    if (output / "index.md").exists() and not (output / "report.json").exists():
        raise click.UsageError(
            f"output={str(output)!r} has an index.md that no run wrote; choose another directory"
        )
    write_document(document, output)
    click.echo(f"{output}: {len(document['selection']['criteria'])} criteria of {document['implementation']}")
