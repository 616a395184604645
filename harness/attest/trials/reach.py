"""Which statements of an implementation each criterion executes, and how long it takes: found out once.

A mutated statement is then put only to the criteria that execute it. The sources are imported with a mark
before every statement; a tracer would be slower and is taken by the criteria that count bytecodes.
"""

from __future__ import annotations

import ast
import builtins
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attest.judging.property import costly_criteria
from attest.records.record import ERROR, FAIL, NOT_RUN, THIN
from attest.report.writing import write_text
from attest.spec import load_spec
from attest.trials.judgement import SECONDS, STRICT, Step, judged_once
from attest.trials.mutations import Mutation
from attest.trials.processes import Ended, each_apart
from attest.trials.sources import Package, fingerprint, harness_fingerprint, load_changed

MARK = "__attest_reached__"
FAILED = (FAIL, ERROR, THIN)
SLOWER = 3.0  # how much longer a marked criterion may take


@dataclass(frozen=True)
class Reach:
    """One criterion on the implementation as it is: its verdict, its time and what it executes."""

    criterion: str
    profile: str
    verdict: str
    reason: str
    seconds: float
    lines: tuple[tuple[str, int], ...] = ()  # file and first line of a statement

    @property
    def usable(self) -> bool:
        """Whether a failure of a mutant says something: the implementation itself passes."""
        return self.verdict in STRICT and self.verdict != NOT_RUN


@dataclass(frozen=True)
class ReachJob:
    """What one process finds out."""

    package: Package
    step: Step
    seed: int
    marked: bool = True


def reach_of(job: ReachJob) -> Reach:
    """Run one criterion on the implementation, with marks or as it is."""
    seen: set[tuple[str, int]] = set()
    setattr(builtins, MARK, seen.add)
    package = job.package
    files = package.files if job.marked else ()
    changed = {path: _marking(path.relative_to(package.root).as_posix()) for path in files}
    started = time.process_time()  # a busy machine must not change who is asked first
    implementation = load_changed(package, changed)
    record = judged_once(implementation, job.step, job.seed)
    seconds = round(time.process_time() - started, 2)
    return Reach(
        record.criterion, job.step.profile, record.verdict, record.reason, seconds, tuple(sorted(seen))
    )


def find_reach(
    package: Package,
    criteria: Sequence[str],
    profile: str,
    *,
    seed: int,
    workers: int,
    on_reach: Callable[[str], None] = lambda criterion: None,
) -> list[Reach]:
    """Every criterion. One that fails only because of the marks is run again without them."""
    steps = [Step(id, profile, SLOWER * SECONDS[profile]) for id in criteria]
    found: dict[str, Reach] = {}
    for job, result in each_apart(
        reach_of, [ReachJob(package, step, seed) for step in steps], workers=workers
    ):
        reach = result if isinstance(result, Reach) else _lost(job.step, result)
        found[reach.criterion] = reach
        on_reach(reach.criterion)
    again = [ReachJob(package, s, seed, False) for s in steps if found[s.criterion].verdict in FAILED]
    for job, result in each_apart(reach_of, again, workers=workers):
        id = job.step.criterion
        if isinstance(result, Reach) and result.usable:
            found[id] = Reach(id, profile, result.verdict, result.reason, result.seconds, found[id].lines)
    return [found[id] for id in criteria]


def reach_facts(package: Package, criteria: Sequence[str], profile: str, seed: int) -> dict[str, Any]:
    """What a map of reach is true of."""
    return {
        "implementation": fingerprint(package.files),
        "harness": harness_fingerprint(),
        "criteria": list(criteria),
        "profile": profile,
        "seed": seed,
    }


def kept_reach(path: Path, facts: dict[str, Any], find: Callable[[], list[Reach]]) -> list[Reach]:
    """From the file where it is still true of this implementation and this harness; found anew otherwise."""
    if path.is_file():
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if kept["true_of"] == facts:
            return [Reach(**{**row, "lines": tuple(map(tuple, row["lines"]))}) for row in kept["reach"]]
    found = find()
    write_text(path, json.dumps({"true_of": facts, "reach": [asdict(r) for r in found]}) + "\n")
    return found


def affordable_criteria() -> list[str]:
    """Those that neither train nor time."""
    costly, every = costly_criteria(), load_spec().criteria
    return [c.id for c in every if c.id not in costly]


def concerning(
    mutations: Sequence[Mutation], reach: Sequence[Reach], milestones: Sequence[str]
) -> list[Mutation]:
    """Without those that only criteria of other milestones execute; what nobody executes stays.

    A change outside every function stays where these milestones execute anything of its file.
    """
    mine, others = set[tuple[str, int]](), set[tuple[str, int]]()
    for one in reach:
        (mine if is_of(one.criterion, milestones) else others).update(one.lines)
    strange = (others - mine) | {(file, 0) for file in {f for f, _ in others} - {f for f, _ in mine}}
    return [m for m in mutations if (m.file, m.line if m.function else 0) not in strange]


def of_milestones(reach: Sequence[Reach], milestones: Sequence[str]) -> list[Reach]:
    """The criteria of these milestones, of all where none is named."""
    return [one for one in reach if is_of(one.criterion, milestones)]


def is_of(criterion: str, milestones: Sequence[str]) -> bool:
    """Whether it belongs to one of these milestones, or none is named."""
    return not milestones or criterion.partition(".")[0] in milestones


def _marking(name: str) -> Callable[[str], ast.Module]:
    def mark(source: str) -> ast.Module:
        return marked(ast.parse(source), name)

    return mark


def marked(tree: ast.Module, name: str) -> ast.Module:
    """A mark before every statement of every function, and one for the function itself."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    inner = [n for f in functions for n in ast.walk(f) if n is not f]
    for owner in {id(n): n for n in (*functions, *inner)}.values():
        for field in ("body", "orelse", "finalbody"):
            body = getattr(owner, field, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                setattr(owner, field, list(_with_marks(body, owner, name)))
    return ast.fix_missing_locations(tree)


def _with_marks(body: list[ast.stmt], owner: ast.AST, name: str) -> Iterator[ast.stmt]:
    """Docstrings end up behind a mark, where nothing reads them."""
    if isinstance(owner, ast.FunctionDef):
        yield _mark(name, owner.lineno)
    for statement in body:
        yield _mark(name, statement.lineno)
        yield statement


def _mark(name: str, line: int) -> ast.stmt:
    place = ast.Tuple([ast.Constant(name), ast.Constant(line)], ast.Load())
    return ast.Expr(ast.Call(ast.Name(MARK, ast.Load()), [place], []))


def _lost(step: Step, ended: Any) -> Reach:
    how = ended.how if isinstance(ended, Ended) else "gave no result"
    return Reach(step.criterion, step.profile, "error", how, 0.0)
