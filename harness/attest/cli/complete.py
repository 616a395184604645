"""`attest complete`: let a trained language model continue prompts."""

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
    from attest.trained.tasks import Ids


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("prompts", nargs=-1, required=True, metavar="PROMPT...")
@click.option(
    "--checkpoint", "-c", required=True, metavar="DIR", help="What `attest train --model gpt` wrote."
)
@click.option("--impl", "-i", metavar="IMPL",
              help="The implementation that completes. [default: the one that trained]")  # fmt: skip
@click.option("--max-new-tokens", default=20, show_default=True, type=click.IntRange(1), metavar="N",
              help="It may end before, by itself.")  # fmt: skip
@click.option("--temperature", default=0.0, show_default=True, type=NumberRange(0), metavar="T",
              help="0 takes the likeliest token; above it is drawn.")  # fmt: skip
@click.option("--top-k", type=click.IntRange(1), metavar="K", help="Draw from the K likeliest tokens only.")
@click.option("--top-p", type=NumberRange(0, 1, min_open=True), metavar="P",
              help="Draw from the likeliest tokens that reach P.")  # fmt: skip
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), metavar="SEED", help="Of what is drawn."
)
def command(
    prompts: tuple[str, ...], checkpoint: str, impl: str | None, max_new_tokens: int, **asked: Any
) -> None:
    """Continue prompts, each written as one argument, and print them with the new tokens behind a bar.

    Prompts of the task entropy are digits from 0 to 7 ("3 1 4"), those of a text file are characters of it.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from attest.cli.flow import judged_implementations
    from attest.cli.generate import registered
    from attest.contract import DECODER_ONLY
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation
    from attest.trained.lessons import command_for
    from attest.trained.models import check_fit, read_model
    from attest.trained.texts import recalled_text

    try:
        model = read_model(Path(checkpoint))
        if model.architecture != DECODER_ONLY:
            raise ValueError(f"checkpoint={checkpoint!r} holds a model of task={model.task!r}; "
                             f"use `{command_for(model.task)}`")  # fmt: skip
        check_fit(model)
        text = recalled_text(model.task, model.history)
        ids = [text.ids_of(prompt) for prompt in prompts]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    longest = max(map(len, ids)) + 1
    if model.config.ends_at_max_len and longest + max_new_tokens - 1 > model.config.max_len:
        room = model.config.max_len - longest + 1
        remedy = f"ask for at most {room}" if room > 0 else "write shorter prompts"
        asked_for = f"max-new-tokens={max_new_tokens} behind a prompt of {longest} tokens"
        raise click.UsageError(f"{asked_for} is beyond the {model.config.max_len} positions; {remedy}")
    judged = judged_implementations(impl or registered(model.implementation))[0]
    try:
        with collecting():
            written = _completed(judged, model, ids, {**asked, "max_len": max_new_tokens})
    except NotOffered as reason:
        raise click.UsageError(f"{judged.name}: {reason}; name one that completes with --impl") from None
    except Violation as violation:
        raise click.ClickException(f"{judged.name}: {violation.seen}") from None
    except MemoryError:
        raise click.ClickException(f"{judged.name}: ran out of memory; is the config too large?") from None
    for prompt, row in zip(prompts, written):
        click.echo(f"{prompt} | {text.words(row)}" if prompt[-1:].strip() else f"{prompt}| {text.words(row)}")


def _completed(
    judged: JudgedImplementation, model: SavedModel, ids: list[Ids], asked: dict[str, Any]
) -> Array:
    """(B, L): the new tokens of prompts behind BOS, padded on the left."""
    import numpy as np

    config = model.config.but(dtype=judged.dtypes[0])
    longest = max(map(len, ids)) + 1
    prompt = np.full((len(ids), longest), config.pad_id, np.int64)
    for row, own in zip(prompt, ids):
        row[longest - len(own) - 1 :] = (config.bos_id, *own)
    architecture = model.architecture
    writer = judged.build(architecture.generate, config)
    writer.load(model.parameters)
    tokens: Array = writer(**{architecture.prompt_keyword: prompt}, method="sample", **asked)["tokens"]
    return tokens[:, 0]
