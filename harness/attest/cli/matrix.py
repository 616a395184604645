"""`attest matrix`: implementations by milestones, over the reports of many runs."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("reports", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path, file_okay=False),
              metavar="DIR", help="Write matrix.html and matrix.md here.")  # fmt: skip
def command(reports: tuple[Path, ...], output: Path) -> None:
    """Write one table over report.json files of different implementations.

    Every cell is the verdict of a milestone and leads to its page.
    """
    from attest.report.matrix import markdown, matrix_of, page
    from attest.report.writing import write_text

    matrix = matrix_of(reports, output)
    write_text(output / "matrix.md", markdown(matrix))
    write_text(output / "matrix.html", page(matrix))
    click.echo(f"{output}: matrix.html, matrix.md, {len(matrix.lines)} implementations")
