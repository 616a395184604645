"""`attest bench`: how fast implementations are, beside peers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--impl", "-i", multiple=True, metavar="IMPL",
              help="An implementation; repeats. [default: eager, compiled and numpy_scratch]")  # fmt: skip
@click.option("--workload", "-w", multiple=True, metavar="NAME",
              help="train, train_task, encode, greedy_1, greedy_16, beam_4, long_cache (encoder-decoder); "
              "complete_1, complete_16, prefill (decoder-only).")  # fmt: skip
@click.option("--rounds", "-k", default=5, show_default=True, type=click.IntRange(1), metavar="K",
              help="Every entrant is timed once per round; the best counts.")  # fmt: skip
@click.option("--threads", type=click.IntRange(1), metavar="N", help="[default: the number of cores]")
@click.option("--clock", default="wall", show_default=True, type=click.Choice(["wall", "cpu"]),
              help="cpu: the processor's own time, for one thread beside busy neighbours.")  # fmt: skip
@click.option("--device", default="cpu", show_default=True, metavar="DEVICE", help="Of the implementations.")
@click.option("--small", is_flag=True, help="A tiny model and few tokens: to see that it works.")
@click.option("--peers/--no-peers", default=True, show_default=True,
              help="nn.Transformer, Marian, Hugging Face, CTranslate2, llama.cpp and ONNX Runtime, as far as "
              "they are installed, of the same shape.")  # fmt: skip
@click.option("--reports", default="reports", show_default=True, type=click.Path(path_type=Path),
              metavar="DIR", help="Where bench.json, bench.md and bench.svg go.")  # fmt: skip
def command(
    impl: tuple[str, ...],
    workload: tuple[str, ...],
    rounds: int,
    threads: int | None,
    clock: str,
    device: str,
    small: bool,
    peers: bool,
    reports: Path,
) -> None:
    """Time implementations and peers in turns, and report ratios beside what the machine can do."""
    threads = threads or os.cpu_count() or 1
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)  # before anything heavy is imported
    from attest.bench.session import bench
    from attest.bench.shapes import BASE, SMALL
    from attest.bench.workloads import chosen
    from attest.bench.writing import markdown, write

    shape = SMALL if small else BASE
    works = chosen(shape, workload)
    with _progress() as say:
        found = bench(
            shape,
            works,
            impl or ("eager", "compiled", "numpy_scratch"),
            rounds=rounds,
            threads=threads,
            clock=clock,
            device=device,
            with_peers=peers,
            say=say,
        )
    click.echo(markdown(found))
    click.echo(f"wrote {', '.join(map(str, write(found, reports)))}")


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """One line that changes in place on a terminal, a line per stage elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda line: click.echo(line, err=True)
        return
    with console.status("starting") as status:
        yield status.update
