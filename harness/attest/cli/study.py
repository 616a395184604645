"""`attest study`: measurements that explain a choice of the spec."""

from __future__ import annotations

from pathlib import Path

import click

STUDIES = ("norm", "heads", "positions", "lengths")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="STUDY")
@click.option("--impl", "-i", metavar="IMPL",
              help="A registered name, file.py[:factory] or package.module:factory.")  # fmt: skip
@click.option("--checkpoint", "-c", metavar="DIR",
              help="Of heads: what `attest train --task operations` wrote.")  # fmt: skip
@click.option("--examples", default=1000, show_default=True, type=click.IntRange(1), metavar="N",
              help="Of heads: test questions, at most 1000.")  # fmt: skip
@click.option("--depth", multiple=True, type=click.IntRange(1, 96), metavar="N",
              help="Layers in each stack; repeats. [default: 6, 12, 24]")  # fmt: skip
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    metavar="SEED",
    help="Of the weights and the batch.",
)
@click.option("--seeds", type=click.IntRange(1, 100), metavar="N",
              help="Of positions: so many trainings of each kind, from --seed on. [default: 3]")  # fmt: skip
@click.option("--steps", type=click.IntRange(1, 100_000), metavar="N",
              help="Of positions: of each training. [default: 400]")  # fmt: skip
@click.option("--quick", is_flag=True, help="Of positions: one seed and 40 steps, to see that it runs.")
@click.option("--reports", default="reports", show_default=True, type=click.Path(path_type=Path),
              metavar="DIR", help="Where NAME/study_STUDY.json and .svg go.")  # fmt: skip
def command(
    name: str,
    impl: str | None,
    checkpoint: str | None,
    examples: int,
    depth: tuple[int, ...],
    seed: int,
    seeds: int | None,
    steps: int | None,
    quick: bool,
    reports: Path,
) -> None:
    """Measure something on an implementation and write it beside its reports.

    STUDY is norm: the gradient norm of each layer of new pre-norm and post-norm models of several depths.
    Or heads: which head of a trained model follows which pattern, and what is right without it.
    Or positions: what small language models with each kind of positions lose at the length they were trained
    at and at twice that, with the spread over seeds. Of eager it takes 3 minutes of one core.
    Or lengths: seconds and memory of attention over 64 to 4096 positions: full, with grouped heads, with a
    window, and in blocks of keys.
    """
    from attest.spelling import nearest

    if name not in STUDIES:
        raise click.UsageError(f"study={name!r} is unknown; {nearest(name, STUDIES)}")
    if name == "heads":
        _heads(impl, checkpoint, examples, reports)
        return
    if impl is None:
        raise click.UsageError(f"the study {name} is of an implementation; name it with --impl")
    if name == "positions":
        usual = _usual_size(quick)
        _positions(impl, range(seed, seed + (seeds or usual["seeds"])), steps or usual["steps"], reports)
        return
    if name == "lengths":
        _lengths(impl, reports)
        return
    from attest.cli.flow import judged_implementations
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation
    from attest.studies.norm import DEPTHS, norm_study, write_study

    for judged in judged_implementations(impl):
        try:
            with collecting():
                study = norm_study(judged, depths=depth or DEPTHS, seed=seed, progress=_say)
        except NotOffered as reason:
            raise click.UsageError(f"{judged.name} cannot be studied: {reason}") from None
        except Violation as violation:
            raise click.ClickException(f"{judged.name}: {violation.seen}") from None
        for line in _table(study["layers"]):
            click.echo(line)
        written = write_study(study, reports)
        click.echo(f"wrote {', '.join(map(str, written))}")
        if len(written) == 1:
            click.echo("no picture: matplotlib is missing; install attest-transformers[report]")


def _heads(impl: str | None, checkpoint: str | None, examples: int, reports: Path) -> None:
    """Of a model of the task operations; its own implementation answers unless another is named."""
    from attest.cli._heads import study_heads
    from attest.cli.flow import judged_implementations
    from attest.cli.generate import registered
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation
    from attest.trained.digits import NAME
    from attest.trained.models import check_fit, read_model

    if checkpoint is None:
        raise click.UsageError("the study heads is of a trained model; name its directory with --checkpoint")
    try:
        model = read_model(Path(checkpoint))
        check_fit(model)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if model.task != NAME:
        raise click.UsageError(f"the checkpoint is of the task {model.task}; train one of the task {NAME}")
    judged = judged_implementations(impl or registered(model.implementation))[0]
    try:
        with collecting():
            study_heads(judged, model, examples, reports / judged.name)
    except NotOffered as reason:
        raise click.UsageError(f"{judged.name}: {reason}; name one that answers with --impl") from None
    except Violation as violation:
        raise click.ClickException(f"{judged.name}: {violation.seen}") from None


def _usual_size(quick: bool) -> dict[str, int]:
    from attest.studies.positions import QUICK, SEEDS, STEPS

    return QUICK if quick else {"seeds": SEEDS, "steps": STEPS}


def _positions(impl: str, seeds: range, steps: int, reports: Path) -> None:
    """Of every kind that the implementation claims."""
    from attest.cli.flow import judged_implementations
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation
    from attest.studies.norm import write_study
    from attest.studies.positions import draw_positions, markdown, positions_study, table

    for judged in judged_implementations(impl):
        try:
            with collecting():
                study = positions_study(judged, seeds=seeds, steps=steps, progress=_say)
        except NotOffered as reason:
            raise click.UsageError(f"{judged.name} cannot be studied: {reason}") from None
        except Violation as violation:
            raise click.ClickException(f"{judged.name}: {violation.seen}") from None
        for line in table(study):
            click.echo(line)
        written = write_study(study, reports, draw_positions, markdown)
        click.echo(f"wrote {', '.join(map(str, written))}")
        if len(written) == 2:
            click.echo("no picture: matplotlib is missing; install attest-transformers[report]")


def _lengths(impl: str, reports: Path) -> None:
    """Of every kind of attention that the implementation offers."""
    from attest.outcomes import NotOffered
    from attest.studies.lengths import draw_lengths, lengths_study, table
    from attest.studies.norm import write_study

    try:
        study = lengths_study(impl, progress=_say)
    except NotOffered as reason:
        raise click.UsageError(f"{impl} cannot be studied: {reason}") from None
    for line in table(study):
        click.echo(line)
    click.echo(f"wrote {', '.join(map(str, write_study(study, reports, draw_lengths)))}")


def _say(line: str) -> None:
    click.echo(line, err=True)


def _table(rows: list[dict[str, object]]) -> list[str]:
    """First, middle and last layer of each stack, and how far the largest is from the smallest."""
    lines = [f"{'':22}{'first':>10}{'middle':>10}{'last':>10}{'largest/smallest':>18}"]
    for row in rows:
        values = row["gradient_norm"]
        assert isinstance(values, list)
        shown = (values[0], values[len(values) // 2], values[-1])
        spread = max(values) / min(values) if min(values) > 0 else float("inf")
        label = f"{row['depth']} {row['norm']}-norm {row['stack']}"
        lines.append(f"{label:22}" + "".join(f"{v:10.3g}" for v in shown) + f"{spread:18.3g}")
    return lines
