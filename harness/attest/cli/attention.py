"""`attest attention`: where a trained model looks, layer by layer and head by head."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.contract import Array
    from attest.report.attention_pictures import Panel
    from attest.trained.models import SavedModel

KINDS = ("self", "cross")
FORMATS = (".svg", ".png", ".pdf")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("question", metavar="QUESTION")
@click.option("--checkpoint", "-c", required=True, metavar="DIR", help="What `attest train` wrote.")
@click.option("--layer", type=click.IntRange(0), metavar="N", help="One layer, from 0. [default: all]")
@click.option("--kind", metavar="KIND", help="self or cross. [default: both]")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE",
              help="A picture instead of numbers: maps.svg or maps.png.")  # fmt: skip
def command(question: str, checkpoint: str, layer: int | None, kind: str | None, out: Path | None) -> None:
    """Show the attention weights of a trained model while it answers QUESTION, such as "FIRST 3 1 4".

    Every head and their mean, with the tokens on the axes: a row for each query, a column for each key.
    Works for a model of any implementation, from its parameters.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from attest.report.attention_pictures import draw, lines

    if kind is not None and kind not in KINDS:
        raise click.UsageError(f"kind={kind!r} is unknown; use one of {', '.join(KINDS)}")
    check_out(out)
    model, source = _read(checkpoint, question)
    found = panels(model, source, layer, kind)
    if out is None:
        for panel in found:
            for line in lines(panel):
                click.echo(line)
        return
    try:
        draw(found, out)
    except ImportError:
        raise click.UsageError(
            "out needs matplotlib, which is missing; install attest-transformers[report]"
        ) from None
    click.echo(f"{out} written: {sum(len(p.drawn) for p in found)} maps")


def check_out(out: Path | None) -> None:
    """Before anything is computed, so that nothing is half written."""
    if out is None:
        return
    if out.suffix not in FORMATS:
        raise click.UsageError(f"out={str(out)!r} is not a picture; end it in {', '.join(FORMATS)}")
    if not out.absolute().parent.is_dir():
        raise click.UsageError(f"out={str(out)!r} is in no directory that exists; make it first")


def _read(checkpoint: str, question: str) -> tuple[SavedModel, Array]:
    from attest.contract import ENCODER_DECODER
    from attest.trained.models import check_fit, read_model
    from attest.trained.named import task_named

    try:
        model = read_model(Path(checkpoint))
        check_fit(model)
        if model.architecture != ENCODER_DECODER:
            raise ValueError(f"architecture={model.architecture} has no maps yet; train an encoder-decoder")
        task = task_named(model.task, model.architecture)
        batch = task.batch([task.question(question)])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    prompt = batch[model.architecture.prompt]
    real: Array = prompt[:, : int((prompt != model.config.pad_id).sum())]
    return model, real


def panels(model: SavedModel, source: Array, layer: int | None, kind: str | None) -> list[Panel]:
    """What was asked for, of the model's own answer."""
    from attest.reference.models.maps import attention_maps
    from attest.report.attention_pictures import Panel
    from attest.trained.named import task_named

    target = written(model, source)
    maps = attention_maps(model.config, model.parameters, source, target)
    words = task_named(model.task).words
    sources, targets = ([words([i]) for i in ids[0]] for ids in (source, target))
    streams = {"encoder": (sources, sources), "decoder": (targets, targets), "cross": (targets, sources)}
    titles = {"encoder": "encoder self", "decoder": "decoder self", "cross": "decoder cross"}
    found = [
        Panel(f"{titles[name]}, layer {i}", weights[0], *streams[name])
        for name, layers in maps.kinds.items()
        if kind is None or (kind == "cross") == (name == "cross")
        for i, weights in enumerate(layers)
        if layer is None or layer == i
    ]
    if not found:
        deepest = max(model.config.num_encoder_layers, model.config.num_decoder_layers) - 1
        raise click.UsageError(f"layer={layer} is beyond the model; use 0 to {deepest}")
    return found


def written(model: SavedModel, source: Array, most: int = 12) -> Array:
    """(1, T): BOS and what the model writes after it, by the largest logit, without EOS."""
    import numpy as np

    from attest.reference.models.maps import attention_maps

    target = np.array([[model.config.bos_id]])
    for _ in range(min(most, model.config.max_len - 1)):
        logits = attention_maps(model.config, model.parameters, source, target).logits
        token = int(logits[0, -1].argmax())
        if token == model.config.eos_id:
            break
        target = np.concatenate([target, [[token]]], axis=1)
    return target
