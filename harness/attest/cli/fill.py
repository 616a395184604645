"""`attest fill`: let a trained masked language model say what stands where a symbol is hidden."""

from __future__ import annotations

import click

LIKELIEST = 3


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sentences", nargs=-1, required=True, metavar="SENTENCE...")
@click.option("--checkpoint", "-c", required=True, metavar="DIR",
              help="What `attest train --model bert` wrote.")  # fmt: skip
@click.option("--impl", "-i", metavar="IMPL",
              help="The implementation that answers. [default: the one that trained]")  # fmt: skip
def command(sentences: tuple[str, ...], checkpoint: str, impl: str | None) -> None:
    """Fill in what is hidden in sentences, each written as one argument, with _ for a hidden symbol.

    Symbols are pairs of the letters a, b and c, and each begins with the letter that the one before it ends
    with: "ab _ ca". Prints the sentence filled in, and for each hidden symbol the likeliest ones.
    """
    import numpy as np

    from attest.cli._answers import logits_of, probabilities, read_checkpoint
    from attest.contract import MASKED
    from attest.trained.grammar import MASK, ids_of, words

    model = read_checkpoint(checkpoint, MASKED)
    asked = []
    for sentence in sentences:
        try:
            asked.append(ids_of(sentence))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        if MASK not in asked[-1]:
            raise click.UsageError(f"sentence={sentence[:40]!r} hides nothing; write _ for a symbol")
        if len(asked[-1]) > model.config.max_len:
            raise click.UsageError(
                f"sentence of {len(asked[-1])} symbols is too long; write at most {model.config.max_len}"
            )
    for ids in asked:
        given = np.array([ids])
        chances = probabilities(logits_of(model, impl, given)[0])
        chances[:, : MASK + 1] = 0  # special ids are no answer
        click.echo(words(np.where(given[0] == MASK, chances.argmax(-1), given[0])))
        for place in np.flatnonzero(given[0] == MASK):
            best = np.argsort(-chances[place])[:LIKELIEST]
            told = "  ".join(f"{words([i])} {chances[place, i]:.3f}" for i in best)
            click.echo(f"     symbol {place + 1}: {told}")
