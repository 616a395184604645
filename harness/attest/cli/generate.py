"""`attest generate`: let a trained model answer, and say whether the answer is right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attest.cli._numbers import NumberRange

if TYPE_CHECKING:
    from attest.boundary import JudgedImplementation
    from attest.contract import Array
    from attest.trained.models import SavedModel

MOST_WIDTH = 1024  # hypotheses of a beam; 99999 ran for more than a minute


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sequences", nargs=-1, required=True, metavar="DIGITS...")
@click.option("--checkpoint", "-c", required=True, metavar="DIR", help="What `attest train` wrote.")
@click.option("--impl", "-i", metavar="IMPL",
              help="The implementation that generates. [default: the one that trained]")  # fmt: skip
@click.option("--method", default="beam", show_default=True, metavar="METHOD",
              help="greedy, beam or sample.")  # fmt: skip
@click.option("--width", default=4, show_default=True, metavar="W", help="Hypotheses of a beam.")
@click.option("--results", default=1, show_default=True, metavar="K", help="How many of them to print.")
@click.option("--alpha", default=0.6, show_default=True, metavar="A", help="Length penalty of a beam.")
@click.option("--temperature", default=1.0, show_default=True, type=NumberRange(0), metavar="T",
              help="Of sample; 0 is greedy.")  # fmt: skip
@click.option("--top-k", type=click.IntRange(1), metavar="K", help="Of sample: only the K likeliest tokens.")
@click.option("--top-p", type=NumberRange(0, 1, min_open=True), metavar="P",
              help="Of sample: the likeliest tokens that reach P.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, metavar="SEED", help="Of sample.")
def command(
    sequences: tuple[str, ...], checkpoint: str, impl: str | None, results: int, **asked: Any
) -> None:
    """Answer sequences of 3 to 8 digits, each written as one argument: "3 1 4 1 5".

    A model of the task operations takes "FIRST 3 1 4".

    Prints input, output and score, the best first. Any implementation can read any checkpoint.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from attest.cli.flow import judged_implementations
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation
    from attest.trained.lessons import command_for
    from attest.trained.models import check_fit, read_model
    from attest.trained.named import TASKS, task_named

    try:
        model = read_model(Path(checkpoint))
        if model.task not in TASKS:
            raise ValueError(f"checkpoint={checkpoint!r} holds a model of task={model.task!r}; "
                             f"use `{command_for(model.task)}`")  # fmt: skip
        check_fit(model)
        task = task_named(model.task, model.architecture)
        asked_ids = [task.question(text) for text in sequences]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if asked["width"] > MOST_WIDTH:
        raise click.UsageError(f"width={asked['width']} takes minutes; use at most {MOST_WIDTH}")
    judged = judged_implementations(impl or registered(model.implementation))[0]
    prompt = task.batch(asked_ids)[model.architecture.prompt]
    try:
        with collecting():
            seen = _generated(judged, model, prompt, {**asked, "num_results": results})
    except NotOffered as reason:
        raise click.UsageError(f"{judged.name}: {reason}; name one that generates with --impl") from None
    except Violation as violation:
        raise click.ClickException(f"{judged.name}: {violation.seen}") from None
    except MemoryError:
        raise click.ClickException(f"{judged.name}: ran out of memory; is the config too large?") from None
    _print(model, asked_ids, seen)


def registered(name: str) -> str:
    """The name in a checkpoint, if it is one that is installed: a path or module would be code to run."""
    from attest.registry import printable, registered_names

    if name not in registered_names():
        raise click.UsageError(
            f"the checkpoint names implementation={printable(name)[:80]!r}, which is not registered; "
            "name with --impl the implementation that generates"
        )
    return name


def _generated(
    judged: JudgedImplementation, model: SavedModel, prompt: Array, asked: dict[str, Any]
) -> dict[str, Array]:
    architecture = model.architecture
    generator = judged.build(architecture.generate, model.config.but(dtype=judged.dtypes[0]))
    generator.load(model.parameters)
    request = {architecture.prompt_keyword: prompt, "max_len": prompt.shape[1] + 1}
    return generator(**request, **asked)


def _print(model: SavedModel, asked: list[tuple[int, ...]], seen: dict[str, Array]) -> None:
    from attest.trained.named import task_named
    from attest.trained.tasks import EOS, PAD

    task = task_named(model.task)
    for row, ids in enumerate(asked):
        wanted = task.answer(ids)
        click.echo(f"input   {task.words(ids)}")
        for tokens, score in zip(seen["tokens"][row], seen["scores"][row]):
            written = tuple(int(t) for t in tokens if t not in (PAD, EOS))
            verdict = "right" if written == wanted else f"{model.task} would be {task.words(wanted)}"
            click.echo(f"output  {task.words(written)}   score {float(score):.4f}   {verdict}")
