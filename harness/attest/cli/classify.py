"""`attest classify`: let a trained classifier say to which class texts belong."""

from __future__ import annotations

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@click.option("--checkpoint", "-c", required=True, metavar="DIR",
              help="What `attest train --model classifier` wrote.")  # fmt: skip
@click.option("--impl", "-i", metavar="IMPL",
              help="The implementation that answers. [default: the one that trained]")  # fmt: skip
def command(texts: tuple[str, ...], checkpoint: str, impl: str | None) -> None:
    """Print the class of each text, how sure the model is, and the words that it does not know."""
    from attest.cli._answers import logits_of, probabilities, read_checkpoint
    from attest.contract import CLASSIFYING
    from attest.trained.words import recalled_texts, words_of

    model = read_checkpoint(checkpoint, CLASSIFYING)
    try:
        task = recalled_texts(model.task, model.history)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    given = [words_of(text) for text in texts]
    for text, words in zip(texts, given):
        if not words:
            raise click.UsageError(f"text={text[:40]!r} has no words; write a sentence")
    rows = probabilities(logits_of(model, impl, task.rows(given)))
    for text, words, row in zip(texts, given, rows):
        click.echo(f"{task.classes[int(row.argmax())]}  {row.max():.3f}  {text}")
        unknown = sorted({word for word in words if word not in task.ids})
        if unknown:
            click.echo(f"     unknown: {', '.join(unknown)}")
        if len(words) > task.longest:
            click.echo(f"     the first {task.longest} of {len(words)} words were read")
