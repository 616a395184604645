"""`attest mutate`: faults made out of an implementation's source, and how many of them are caught."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli._numbers import NumberRange

if TYPE_CHECKING:
    from attest.trials.mutants import Mutant, Results
    from attest.trials.mutations import Mutation
    from attest.trials.reach import Reach
    from attest.trials.sources import Package
    from attest.trials.survivors import Annotations


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--impl", "-i", required=True, metavar="IMPL",
              help="A registered name, file.py[:factory] or package.module:factory.")  # fmt: skip
@click.option("--count", type=click.IntRange(1), metavar="N", help="So many mutants by lot. [default: all]")
@click.option("--file", "parts", multiple=True, metavar="PART",
              help="Only of source files with this in their path; repeats.")  # fmt: skip
@click.option("--only", multiple=True, metavar="ID", help="Only this mutant; repeats.")
@click.option("--milestone", "-m", multiple=True, metavar="M1",
              help="Only criteria of this milestone; repeats.")  # fmt: skip
@click.option("--profile", default="standard", show_default=True, type=click.Choice(["quick", "standard"]),
              help="At which the criteria judge.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), metavar="SEED",
              help="Of the lot and of the drawn cases.")  # fmt: skip
@click.option("--annotations", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PATH",
              help="A TOML file that explains survivors.")  # fmt: skip
@click.option("--listed", is_flag=True, help="Only the mutants that --annotations explains.")
@click.option("--trusting", is_flag=True,
              help="Judge none that --annotations explains: each counts as what is said there.")  # fmt: skip
@click.option("--minutes", type=NumberRange(0, min_open=True), metavar="N",
              help="Begin no further mutant after so long.")  # fmt: skip
@click.option("--processor-seconds", type=NumberRange(0, min_open=True), metavar="N", default=math.inf,
              help="No further criterion after so much; --again judges whole.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on where an earlier run of the same sources stopped.")
@click.option("--again", is_flag=True, help="Judge the unexplained survivors of an earlier run again.")
@click.option("--at-least", default=95.0, show_default=True, type=NumberRange(0, 100), metavar="PERCENT",
              help="Of those that are not equivalent: fewer caught give exit code 1.")  # fmt: skip
@click.option("--list", "only_list", is_flag=True, help="Print the mutants and judge none.")
@click.option("--reports", default="reports", show_default=True, type=click.Path(path_type=Path),
              metavar="DIR", help="Where mutation/ with results and report goes.")  # fmt: skip
@click.option("-n", "workers", type=click.IntRange(1), metavar="N",
              help="Processes at a time. [default: 2, or the number of cores if fewer]")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    impl: str,
    count: int | None,
    parts: tuple[str, ...],
    only: tuple[str, ...],
    milestone: tuple[str, ...],
    profile: str,
    seed: int,
    annotations: Path | None,
    listed: bool,
    trusting: bool,
    minutes: float | None,
    processor_seconds: float,
    resume: bool,
    again: bool,
    at_least: float,
    only_list: bool,
    reports: Path,
    workers: int | None,
) -> None:
    """Change one thing in the source of an implementation that passes, judge it, and do so many times.

    The criteria that train a model or measure time are left out. Exit code 0: all mutants asked for were
    judged and enough of them caught. 1: not.
    """
    from attest.trials.mutants import FIRST_EXAMPLES, OPEN, Results, mutants
    from attest.trials.mutations import sample
    from attest.trials.reach import concerning, of_milestones
    from attest.trials.sources import package_of
    from attest.trials.survivors import explained_last, read_annotations

    package, known = package_of(impl), read_annotations(annotations)
    _check_milestones(milestone)
    every = _mutations(package, parts, only, _listed(annotations, known) if listed else None)
    if only_list:
        for mutation in sample(every, count, seed):
            click.echo(f"{mutation.id} {mutation.kind}: {mutation}")
        return
    named = bool(only) or listed  # these keep results of their own, beside those of a whole lot
    home, name = reports / "mutation", _name(impl) + ".named" * named
    results = Results(home / f"{name}.jsonl", package, seed, profile)
    if resume or again:
        results.resume(another_harness=again)
    workers = workers or min(2, os.cpu_count() or 1)
    deadline = time.monotonic() + 60 * (math.inf if minutes is None else minutes)

    def reach(criteria: list[str], profile: str) -> list[Reach]:
        return _reach(package, criteria, profile, seed, home / f"{name}.{profile}.json", workers)

    def planned(left: list[Mutation], reach: list[Reach], examples: tuple[int, ...]) -> list[Mutant]:
        most = math.inf if again else processor_seconds
        last = explained_last(left, known)
        return mutants(package, last, reach, seed, profile=profile, examples=examples, processor_seconds=most)

    executed = reach(_criteria(milestone if named else ()), "quick")
    chosen = sample(every if named else concerning(every, executed, milestone), count, seed)
    executed = of_milestones(executed, milestone)
    if not (resume or again):
        results.begin()
    left = _left(chosen, results, known, again)
    if trusting:
        left = _unexplained(left, known, results)
    if profile == "quick":
        _judge(planned(left, executed, (*FIRST_EXAMPLES[:1], 0)), results, workers, deadline)
    else:
        # Which lines standard executes is dear to find out, and few mutants live until it must be known.
        first = [m for m in left if again or m.id not in results.outcomes]
        _judge(planned(first, executed, FIRST_EXAMPLES), results, workers, deadline)
        living = [m for m in left if m.id in results.outcomes and results.outcomes[m.id].verdict == OPEN]
        if living and time.monotonic() < deadline:
            executed = reach(_criteria(milestone), profile)
            _judge(planned(living, executed, (0,)), results, workers, deadline)
    ctx.exit(_report(chosen, results, known, home / f"{name}.json", at_least))


def _check_milestones(milestones: tuple[str, ...]) -> None:
    from attest.spec import load_spec
    from attest.spelling import nearest

    known = [m.id for m in load_spec().milestones]
    for id in milestones:
        if id not in known:
            raise click.UsageError(f"milestone={id!r} is unknown; {nearest(id, known)}")


def _criteria(milestones: tuple[str, ...]) -> list[str]:
    """Of these milestones; of all for a lot, from which is left out what only other milestones execute."""
    from attest.trials.reach import affordable_criteria, is_of

    return [id for id in affordable_criteria() if is_of(id, milestones)]


def _listed(path: Path | None, known: Annotations) -> Annotations:
    if path is None:
        raise click.UsageError("--listed needs a list of mutants; give it by --annotations")
    return known


def _name(impl: str) -> str:
    """eager for eager, mine for path/mine.py."""
    return Path(impl.partition(",")[0].partition(":")[0]).name.removesuffix(".py")


def _mutations(
    package: Package, parts: tuple[str, ...], only: tuple[str, ...], listed: Annotations | None
) -> list[Mutation]:
    from attest.trials.mutations import package_mutations
    from attest.trials.survivors import key_of

    every = package_mutations(package.files, package.root)
    if listed is not None:
        found = {key_of(m): m for m in every}
        if gone := [a for key, a in listed.items() if key not in found]:
            raise click.UsageError(
                f"annotation {gone[0].function}: {gone[0].before} -> {gone[0].after} is of no mutant of "
                f"{package.request}; remove it"
            )
        every = [m for m in every if key_of(m) in listed]
    if parts:
        every = [m for m in every if any(part in m.file for part in parts)]
    if missing := set(only) - {m.id for m in every}:
        raise click.UsageError(f"only={min(missing)!r} is not a mutant of {package.request}; see --list")
    if not every:
        raise click.UsageError(f"--impl={package.request} has nothing to mutate in these files; widen --file")
    return [m for m in every if m.id in only] if only else every


def _reach(
    package: Package, wanted: list[str], profile: str, seed: int, path: Path, workers: int
) -> list[Reach]:
    """What each criterion executes at a profile; those that the implementation itself fails are named."""
    from attest.trials.reach import FAILED, find_reach, kept_reach, reach_facts

    def find() -> list[Reach]:
        with _bar(f"what {profile} executes", len(wanted)) as advance:
            return find_reach(package, wanted, profile, seed=seed, workers=workers, on_reach=advance)

    found = kept_reach(path, reach_facts(package, wanted, profile, seed), find)
    for unusable in (r for r in found if r.verdict in FAILED):
        what = f"{unusable.verdict} ({unusable.reason})"
        click.echo(f"{unusable.criterion} is left out at {profile}: unmutated it gives {what}")
    return found


def _left(chosen: list[Mutation], results: Results, known: Annotations, again: bool) -> list[Mutation]:
    """What is not settled yet, or, asked again, the survivors that nobody has explained."""
    from attest.trials.mutants import EXPLAINED, OPEN
    from attest.trials.mutation_report import open_survivors

    if not again:
        unsettled = (OPEN, EXPLAINED)
        settled = {id for id, outcome in results.outcomes.items() if outcome.verdict not in unsettled}
        return [m for m in chosen if m.id not in settled]
    left = {o.mutation.id for o in open_survivors(list(results.outcomes.values()), known)}
    return [m for m in chosen if m.id in left]


def _unexplained(left: list[Mutation], known: Annotations, results: Results) -> list[Mutation]:
    """Without those that have an annotation, which are kept as explained."""
    from attest.trials.mutants import EXPLAINED, Outcome
    from attest.trials.survivors import key_of

    for mutation in left:
        if key_of(mutation) in known:
            results.add(Outcome(mutation, EXPLAINED))
    return [m for m in left if key_of(m) not in known]


def _judge(planned: list[Mutant], results: Results, workers: int, deadline: float) -> None:
    from attest.trials.mutants import Experience, Outcome, judge_all

    experience = Experience(results.outcomes.values())
    with _bar("mutants", len(planned)) as advance:

        def keep(outcome: Outcome) -> None:
            results.add(outcome)
            advance(f"{outcome.mutation.id} {outcome.verdict}")

        judge_all(planned, workers=workers, deadline=deadline, experience=experience, on_outcome=keep)


def _report(chosen: list[Mutation], results: Results, known: Annotations, path: Path, at_least: float) -> int:
    from attest.report.writing import as_json, write_text
    from attest.trials.mutants import OPEN
    from attest.trials.mutation_report import count, document, lines
    from attest.trials.survivors import contradicted

    outcomes = [results.outcomes[m.id] for m in chosen if m.id in results.outcomes]
    for line in lines(outcomes, known, len(chosen)):
        click.echo(line)
    write_text(path, as_json(document(outcomes, known, len(chosen))))
    enough = 100 * count(outcomes, known).rate_of_faults >= at_least
    settled = len(outcomes) == len(chosen) and all(o.verdict != OPEN for o in outcomes)
    return 0 if enough and settled and not contradicted(outcomes, known) else 1


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar on the error stream; the body calls what it gets with the name of each thing done."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(transient=True, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, advance=1, description=f"{what}: {done}")
