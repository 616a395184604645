"""`attest trial`: a file of faulty and correct implementations against the criteria."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.trials.presented import Asked, Presented, Tried


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", metavar="FILE")
@click.option("--milestone", "-m", multiple=True, metavar="M1",
              help="Only criteria of this milestone; repeats.")  # fmt: skip
@click.option("--criterion", "-c", multiple=True, metavar="M1.5", help="Only this criterion; repeats.")
@click.option("--name", multiple=True, metavar="NAME", help="Only this implementation of the file; repeats.")
@click.option("--profile", default="standard", show_default=True, type=click.Choice(["quick", "standard"]),
              help="quick stops there; standard goes on with those that quick let pass.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), metavar="SEED",
              help="Of the drawn cases.")  # fmt: skip
@click.option("--seeds", metavar="A..B",
              help="Judge correct implementations at every seed from A to B.")  # fmt: skip
@click.option("--costly", is_flag=True, help="Also the criteria that train a model or measure time.")
@click.option("--all", "everything", is_flag=True,
              help="Every criterion that refuses; without it the first must that does ends it.")  # fmt: skip
@click.option("--diagnose", is_flag=True,
              help="Diagnose every fault, not only those for which the file names a defect.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="PATH",
              help="Also write what was found to this file.")  # fmt: skip
@click.option("-n", "workers", type=click.IntRange(1), metavar="N",
              help="Processes at a time. [default: 2, or the number of cores if fewer]")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    milestone: tuple[str, ...],
    criterion: tuple[str, ...],
    name: tuple[str, ...],
    profile: str,
    seed: int,
    seeds: str | None,
    costly: bool,
    everything: bool,
    diagnose: bool,
    json_file: Path | None,
    workers: int | None,
) -> None:
    """Count the faults that the criteria catch. FILE is a plugin, as --impl takes one, whose implementations
    each say `correct = True` or `correct = False`; docs/trial.md shows one.

    Exit code 0: every faulty one was caught and no correct one was refused by a must. 1: not.
    """
    from attest.registry import parse_request
    from attest.report.writing import as_json, write_text
    from attest.running.many_seeds import seeds_of
    from attest.trials.presented import Asked, presented
    from attest.trials.trial_table import document, lines

    parse_request(file)
    wanted = (seed,) if seeds is None else tuple(seeds_of(seeds))
    asked = Asked(milestone, criterion, profile, wanted, costly, everything, diagnose)
    _check(asked)
    chosen = _chosen(presented(file), name, asked)
    tried = _tried(chosen, asked, workers or min(2, os.cpu_count() or 1))
    for line in lines(tried):
        click.echo(line)
    if json_file is not None:
        write_text(json_file, as_json(document(tried, seeds=wanted, profile=profile)))
    ctx.exit(0 if all(t.as_it_should_be for t in tried) else 1)


def _check(asked: Asked) -> None:
    from attest.spec import load_spec
    from attest.spelling import nearest

    spec = load_spec()
    for what, given, known in (
        ("milestone", asked.milestones, [m.id for m in spec.milestones]),
        ("criterion", asked.criteria, list(spec.by_id)),
    ):
        for id in given:
            if id not in known:
                raise click.UsageError(f"{what}={id!r} is unknown; {nearest(id, known)}")


def _chosen(presented: list[Presented], names: tuple[str, ...], asked: Asked) -> list[Presented]:
    from attest.spelling import nearest
    from attest.trials.presented import steps

    known = [one.name for one in presented]
    for name in names:
        if name not in known:
            raise click.UsageError(f"name={name!r} is not in the file; {nearest(name, known)}")
    chosen = [one for one in presented if not names or one.name in names]
    for one in chosen:
        if next(steps(one, asked), None) is None:
            raise click.UsageError(
                f"no criterion that was asked for concerns {one.name}; offer an operation, or ask for others"
            )
    return chosen


def _tried(chosen: list[Presented], asked: Asked, workers: int) -> list[Tried]:
    from rich.console import Console
    from rich.progress import Progress

    from attest.trials.presented import trial

    with Progress(transient=True, console=Console(stderr=True)) as progress:
        task = progress.add_task("trial", total=len(chosen))

        def show(one: Tried) -> None:
            progress.update(task, advance=1, description=f"{one.presented.name} {one.verdict}")

        return trial(chosen, asked, workers=workers, on_tried=show)
