"""`attest aot`: Triton kernels compiled for GPUs that are not there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.adapters.triton.ahead_of_time import Compiled, MachineCode

HEADS = ("kernel", "target", "registers", "stack", "spills", "shared", "tf32", "atomics")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("kernels", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="KERNEL.PY")
@click.option("--target", "-t", multiple=True, metavar="sm_80",
              help="A GPU's architecture; repeats. [default: sm_80 (A100) and sm_90 (H100)]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write PTX and cubin of every kernel here.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, kernels: Path, target: tuple[str, ...], as_json: bool, keep: Path | None
) -> None:
    """Compile the kernels that a file declares in ATTEST_AOT, and say what they use; no GPU is needed.

    Sizes are in bytes. Exit code 1 when a kernel cannot be compiled. docs/kernels.md shows a signature.
    """
    from attest.adapters.triton.ahead_of_time import TARGETS, USUAL, compiled, compiler
    from attest.adapters.triton.signatures import signatures_in
    from attest.registry import BrokenPlugin, Request, import_plugin
    from attest.spelling import nearest

    for name in target:
        if name not in TARGETS:
            raise click.UsageError(f"target={name!r} is unknown; {nearest(name, TARGETS)}")
    try:
        with compiler():
            module = import_plugin(Request(str(kernels), str(kernels.with_suffix(".py")), None, ()))
            signatures = signatures_in(module, str(kernels))
            made = [compiled(signature, name) for signature in signatures for name in target or USUAL]
    except BrokenPlugin as error:
        raise click.UsageError(str(error)) from None
    if keep is not None:
        _write(made, keep)
    summaries = [code.summary for code in made]
    if as_json:
        click.echo(json.dumps({"format": 1, "kernels": [s.as_json() for s in summaries]}, indent=1))
    else:
        for line in table(summaries):
            click.echo(line)
    ctx.exit(1 if any(s.error for s in summaries) else 0)


def table(summaries: list[Compiled]) -> list[str]:
    """A line for each kernel and target; what could not be compiled says why."""
    rows = [list(HEADS), *(_row(s) for s in summaries if not s.error)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return lines + [f"{s.name} for {s.target} cannot be compiled: {s.error}" for s in summaries if s.error]


def _row(summary: Compiled) -> list[str]:
    numbers = (summary.registers, summary.stack, summary.spill_stores + summary.spill_loads, summary.shared)
    tf32 = "yes" if summary.tf32 else "no"
    return [summary.name, summary.target, *map(str, numbers), tf32, str(summary.atomics)]


def _write(made: list[MachineCode], keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for code in made:
        if not code.summary.error:
            stem = re.sub(r"\W+", "_", f"{code.summary.name}_{code.summary.target}")
            (keep / f"{stem}.ptx").write_text(code.ptx, encoding="utf-8")
            (keep / f"{stem}.cubin").write_bytes(code.cubin)
