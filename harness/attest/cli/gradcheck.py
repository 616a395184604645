"""`attest gradcheck`: the gradients of one operation beside numerical ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.studies.gradcheck import Comparison

SMALL = ("d_model=6", "num_heads=2", "d_ff=5", "num_encoder_layers=1", "num_decoder_layers=1")
TINY = ("source_vocab=7", "target_vocab=5", "max_len=8", "dropout=0")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("operation", metavar="OPERATION")
@click.argument("fields", nargs=-1, metavar="[NAME=VALUE...]")
@click.option("--impl", "-i", required=True, metavar="IMPL",
              help="A registered name, file.py[:factory] or package.module:factory.")  # fmt: skip
@click.option("--entries", default=64, show_default=True, type=click.IntRange(0), metavar="N",
              help="Entries of each array, chosen by the seed; 0: all.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), metavar="SEED",
              help="Of inputs, weights and cotangents.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE",
              help="The picture of a failure. [default: gradcheck-IMPL-OPERATION.png]")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    operation: str,
    fields: tuple[str, ...],
    impl: str,
    entries: int,
    seed: int,
    out: Path | None,
) -> None:
    """Compare the gradients of OPERATION with central differences, in float64 where that is offered.

    For every input and parameter: the worst entry, its analytic and numerical value, and their difference
    relative to the largest gradient of the array. Fields of the config may follow, as activation=gelu.
    Exit code 1 when one is wrong; a picture then shows where.
    """
    from attest.cli.flow import judged_implementations
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation
    from attest.spelling import config_from
    from attest.studies.gradcheck import gradcheck

    check_operation(operation)
    check_picture(out)
    given = {field.partition("=")[0] for field in fields}
    small = [field for field in (*SMALL, *TINY) if field.partition("=")[0] not in given]
    config = config_from([*small, *fields])
    wrong = False
    for judged in judged_implementations(impl):
        try:
            with collecting():
                found = gradcheck(judged, operation, config, seed=seed, entries=entries)
        except NotOffered as reason:
            raise click.UsageError(f"{judged.name}: {reason}; gradcheck needs its gradients") from None
        except Violation as violation:
            raise click.ClickException(f"{judged.name}: {violation.seen}") from None
        click.echo(f"{judged.name} {operation}, {judged.sharpest}, seed {seed}")
        for line in table(found):
            click.echo(line)
        if not all(c.right for c in found):
            wrong = True
            click.echo(_drawn(found, judged.name, operation, out), err=True)
    ctx.exit(1 if wrong else 0)


def check_operation(operation: str) -> None:
    """UsageError for one that has no gradients."""
    from attest.contract import OPERATIONS
    from attest.spelling import nearest

    known = [name for name, record in OPERATIONS.items() if record.computes]
    if operation not in known:
        raise click.UsageError(
            f"operation={operation!r} has no gradients to check; {nearest(operation, known)}"
        )


def check_picture(path: Path | None) -> None:
    """UsageError for a file that cannot be a picture, before anything is computed."""
    if path is None:
        return
    if path.suffix not in PICTURES:
        raise click.UsageError(f"out={str(path)!r} is not a picture; end it in {', '.join(PICTURES)}")
    if not path.absolute().parent.is_dir():
        raise click.UsageError(f"out={str(path)!r} is in no directory that exists; make it first")


PICTURES = (".png", ".svg", ".pdf")


def table(found: list[Comparison]) -> list[str]:
    """One line per array, and a sentence at the end."""
    width = max([len(c.name) for c in found] + [5])
    lines = [
        f"{'array':{width}}  {'entries':>9}  {'worst at':>12}  {'analytic':>13}  {'numerical':>13}  error"
    ]
    for c in found:
        at = ",".join(map(str, c.worst)) or "-"
        numbers = f"{c.analytic[c.worst]:13.6g}  {c.numerical[c.worst]:13.6g}  {c.error:.1e}"
        counted = f"{c.looked_at}/{c.analytic.size}"
        mark = "" if c.right else "  WRONG"
        lines.append(f"{c.name:{width}}  {counted:>9}  {at:>12}  {numbers}{mark}")
    wrong = [c.name for c in found if not c.right]
    allowed = found[0].allowed if found else 0.0
    said = f"wrong: {', '.join(wrong)}" if wrong else "every gradient agrees"
    return [*lines, f"{said} (allowed {allowed:.1e} of the largest gradient of an array)"]


def _drawn(found: list[Comparison], name: str, operation: str, out: Path | None) -> str:
    """Where the picture is, or why there is none."""
    from attest.studies.gradcheck import draw_errors

    path = out or Path(f"gradcheck-{name}-{operation}.png")
    try:
        draw_errors(found, f"{name} {operation}: where gradients are wrong", path)
    except ImportError:
        return "no picture: matplotlib is missing; install attest-transformers[report]"
    return f"{path} shows where"
