"""`attest selftest`: the harness on trial."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from attest.order import criterion_order


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--deep", is_flag=True, help="The whole matrix: every defect against every criterion of its milestone."
)
@click.option(
    "--milestone", "-m", multiple=True, metavar="M1", help="Only the defects of this milestone; repeats."
)
@click.option(
    "--defect", "-d", multiple=True, metavar="NAME", help="Only this defect or correct variant; repeats."
)
@click.option("--impl", "-i", multiple=True, metavar="IMPL",
              help="The milestones this plugin brings; without --milestone only those; repeats.")  # fmt: skip
@click.option("--reports", default="reports", show_default=True, type=click.Path(path_type=Path),
              metavar="DIR", help="Where selftest.json goes; only a whole run writes it.")  # fmt: skip
@click.option("-n", "workers", type=click.IntRange(1), metavar="N",
              help="Worker processes. [default: 2, or the number of cores if fewer]")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    deep: bool,
    milestone: tuple[str, ...],
    defect: tuple[str, ...],
    impl: tuple[str, ...],
    reports: Path,
    workers: int | None,
) -> None:
    """Show that the harness can fail: each known defect dies, each correct variant lives.

    Exit code 1 when a defect lives, a correct variant is refused, a criterion has no property or no defect or
    kills nothing, or a file of defects was not loaded.
    """
    from rich.console import Console
    from rich.progress import Progress

    from attest import selftest

    brought = _bring(impl)
    milestone = milestone or (() if defect else brought)
    _check_names(milestone, defect)
    with Progress(transient=True, console=Console(stderr=True)) as progress:
        task = progress.add_task("trials", total=None)
        code, summary = selftest.main(
            deep=deep,
            milestones=milestone,
            names=defect,
            plugins=impl,
            reports=None if milestone or defect else reports,
            workers=workers or min(2, os.cpu_count() or 1),
            on_outcome=lambda outcome: progress.update(task, advance=1, description=outcome.trial.name),
        )
    for line in _lines(summary):
        click.echo(line)
    ctx.exit(code)


def _bring(impl: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of the milestones that these plugins bring; each must bring one."""
    from attest.registry import BrokenPlugin, UsageError, printable
    from attest.selftest import bring_plugins, check_killers
    from attest.spec import SpecError

    found: list[str] = []
    try:
        for text in impl:
            ids = bring_plugins((text,))
            if not ids:
                raise UsageError(f"--impl={printable(text)} brings no milestone; give it attest_milestones()")
            found += ids
        check_killers()
    except (BrokenPlugin, SpecError, UsageError) as error:
        raise click.UsageError(str(error)) from None
    return tuple(found)


def _check_names(milestones: tuple[str, ...], names: tuple[str, ...]) -> None:
    from attest.judging.catalogue import defects, variants
    from attest.spec import load_spec
    from attest.spelling import nearest

    for what, asked, known in (
        ("milestone", milestones, [m.id for m in load_spec().milestones]),
        ("defect", names, [*defects(), *variants()]),
    ):
        for name in asked:
            if name not in known:
                raise click.UsageError(f"{what}={name!r} is unknown; {nearest(name, known)}")


def _lines(summary: dict[str, Any]) -> Iterator[str]:
    rows = summary["defects"]
    for milestone in dict.fromkeys(row["milestone"] for row in rows):
        yield from _matrix(milestone, [row for row in rows if row["milestone"] == milestone])
    for variant in summary["variants"]:
        reason = f": {variant['reason']}" if variant["reason"] else ""
        yield f"variant {variant['name']:<38} {variant['verdict']}{reason}"
    for error in summary["harness_errors"]:
        yield f"the harness failed on {error['name']} at {error['criterion']}: {error['reason']}"
    killed = sum(row["verdict"] == "killed" for row in rows)
    correct = summary["variants"]
    living = sum(v["verdict"] == "lives" for v in correct)
    yield f"{killed} of {len(rows)} defects killed, {living} of {len(correct)} correct variants live"
    yield f"criteria that kill nothing: {', '.join(summary['criteria_without_kill']) or 'none'}"
    for what, name in (
        ("criteria without a property", "criteria_without_property"),
        ("criteria without a defect", "criteria_without_defect"),
        ("files that were not loaded", "files_not_loaded"),
    ):
        if summary[name]:
            yield f"{what}: {', '.join(summary[name])}"


def _matrix(milestone: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """x: named and kills; +: kills though not named; O: named and does not kill."""
    ids = sorted({id for row in rows for id in (*row["expected"], *row["killed_by"])}, key=criterion_order)
    heads = [id.partition(".")[2] if id.startswith(f"{milestone}.") else id for id in ids]
    yield f"{milestone:<40} " + " ".join(f"{head:>3}" for head in heads)
    for row in rows:
        marks = " ".join(f"{_mark(id, row):>{max(3, len(head))}}" for id, head in zip(ids, heads))
        yield f"{row['name']:<40} {marks}" + ("" if row["verdict"] == "killed" else "  ALIVE")


def _mark(id: str, row: dict[str, Any]) -> str:
    if id in row["expected"]:
        return "x" if id in row["killed_by"] else "O"
    return "+" if id in row["killed_by"] else "."
