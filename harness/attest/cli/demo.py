"""`attest demo`: train a small model, then let it answer: the whole way in one command."""

from __future__ import annotations

import click

from attest.cli import generate, train


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sequences", nargs=-1, metavar="[DIGITS...]")
@click.option(
    "--impl",
    "-i",
    default="eager",
    show_default=True,
    metavar="IMPL",
    help="The implementation that trains and answers.",
)
@click.option(
    "--task", "-t", default="reverse", show_default=True, metavar="TASK", help="copy, reverse or sort."
)
@click.option(
    "--steps", default=1000, show_default=True, type=click.IntRange(1), metavar="N", help="At most."
)
@click.pass_context
def command(ctx: click.Context, sequences: tuple[str, ...], impl: str, task: str, steps: int) -> None:
    """Train on sequences of digits, keep the model in trained/demo-TASK, and answer "3 1 4 1 5"."""
    directory = f"trained/demo-{task}"
    words = ["--impl", impl, "--task", task, "--steps", str(steps), "--out", directory]
    learned = train.command.main(words, prog_name="attest train", standalone_mode=False)
    asked = sequences or ("3 1 4 1 5", "2 7 1 8 2 8", "1 6 1 8")
    generate.command.main(
        ["--checkpoint", directory, *asked], prog_name="attest generate", standalone_mode=False
    )
    ctx.exit(learned or 0)
