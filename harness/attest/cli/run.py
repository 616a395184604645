"""`attest run`: a front for pytest with short option names and a live table."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--impl", "-i", multiple=True, required=True, metavar="IMPL",
              help="A registered name, file.py[:factory] or package.module:factory; repeats. Options follow "
              "after a comma: compiled,dtype=bfloat16.")  # fmt: skip
@click.option("--milestone", "-m", multiple=True, metavar="M1", help="Only this milestone; repeats.")
@click.option("--criterion", "-c", multiple=True, metavar="M1.5", help="Only this criterion; repeats.")
@click.option(
    "--profile", default="standard", show_default=True, metavar="PROFILE", help="quick, standard or deep."
)
@click.option(
    "--report", default="", metavar="KIND", help="html adds a page to look at; none writes no report."
)
@click.option("--reports", default="reports", show_default=True, metavar="DIR", help="Where reports go.")
@click.option("--device", default="cpu", show_default=True, metavar="DEVICE", help="cpu, cuda or cuda:0.")
@click.option(
    "--dtype", metavar="DTYPE", help="Judge in this dtype only: float32, float64, bfloat16 or float16."
)
@click.option("--seed", metavar="SEED", help="A whole number, or random. [default: 0, or random when sealed]")
@click.option("--seeds", metavar="A..B", help="Every seed from A to B, one run each, merged into one report.")
@click.option("--case", metavar="CASE", help="Run this one case, as a report prints it.")
@click.option("--resume", is_flag=True, help="Judge only what a run that was stopped left out.")
@click.option("--sealed/--open", default=None, help="Keep implementations where the harness is out of their "
              "reach, or beside it. [default: sealed for a file on Linux, else open]")  # fmt: skip
@click.option("--shard", metavar="K/N", help="Judge the K-th of N parts; `attest merge` joins their reports.")
@click.option("-n", "workers", metavar="N", help="Worker processes, or auto; 0 judges one after the other. "
              "[default: 2, or the number of cores if fewer]")  # fmt: skip
@click.option(
    "--json", "as_json", is_flag=True, help="Print the reports as one JSON document, and nothing else."
)
@click.option("--verbose", "-v", is_flag=True, help="Print the pytest command and show pytest's own output.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context,
    impl: tuple[str, ...],
    milestone: tuple[str, ...],
    criterion: tuple[str, ...],
    profile: str,
    report: str,
    reports: str,
    device: str,
    dtype: str | None,
    seed: str | None,
    seeds: str | None,
    case: str | None,
    resume: bool,
    sealed: bool | None,
    shard: str | None,
    workers: str | None,
    as_json: bool,
    verbose: bool,
    pytest_args: tuple[str, ...],
) -> None:
    """Judge implementations and write reports/NAME/. What follows -- goes to pytest as it is.

    Exit code 0: every milestone asked for conforms (by default, those of which an operation is offered).
    1: not. 2: the command is wrong. 3: the harness itself failed.
    """
    from attest.running.live_run import Mode, run_pytest

    if workers is not None and not (workers == "auto" or (workers.isascii() and workers.isdecimal())):
        raise click.UsageError(f"-n={workers!r} is not a number of workers; use 0, 1, 2 ... or auto")
    arguments = [f"--attest-impl={i}" for i in impl]
    arguments += [f"--attest-milestone={m}" for m in milestone]
    arguments += [f"--attest-criterion={c}" for c in criterion]
    arguments += ["--attest-resume"] if resume else []
    if sealed is None and any(".py" in i for i in impl):
        arguments.append("--attest-seal-files")
    arguments += ["--attest-sealed"] if sealed else []
    settings: dict[str, str | None] = {
        "profile": profile,
        "report": report,
        "reports": reports,
        "device": device,
    }
    settings |= {"dtype": dtype, "seed": seed, "case": case, "shard": shard}
    arguments += [f"--attest-{k}={v}" for k, v in settings.items() if v is not None and v != _DEFAULTS.get(k)]
    arguments += ["-n", workers or str(min(2, os.cpu_count() or 1)), *pytest_args]
    if verbose:
        click.echo(f"pytest {shlex.join(arguments)}", err=as_json)
    mode = Mode.JSON if as_json else Mode.LIVE if sys.stdout.isatty() and not verbose else Mode.PLAIN
    if seeds is None:
        ctx.exit(run_pytest(arguments, mode))
    if seed is not None:
        raise click.UsageError(f"--seed={seed} and --seeds={seeds!r} contradict each other; leave one out")
    if as_json or report == "none":
        raise click.UsageError(
            f"--seeds={seeds!r} needs reports to merge; leave out --json and --report none"
        )
    from attest.running.many_seeds import run_seeds, seeds_of

    ctx.exit(run_seeds(seeds_of(seeds), Path(reports), lambda more: run_pytest([*arguments, *more], mode)))


_DEFAULTS = {"report": "", "profile": "standard", "reports": "reports", "device": "cpu"}
