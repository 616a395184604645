"""The harness on trial: every defect dies by each criterion that names it, every correct variant lives."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any

from attest.boundary import JudgedImplementation
from attest.diagnosis.executed import Executed, adds_names, may_matter
from attest.diagnosis.recording import Watching
from attest.judging.catalogue import Defect, Variant, defects, variants
from attest.judging.property import costly_criteria, load_properties
from attest.machine import lacking
from attest.milestone_registry import bring_milestones, files_not_loaded
from attest.records.record import ERROR, FAIL, NOT_RUN, Record
from attest.reference.implementation import ReferenceImplementation
from attest.reference.memory import remember_answers
from attest.registry import UsageError, parse_request
from attest.report.writing import write_text
from attest.running.judging import Settings, judge
from attest.sealed.guard import end_with_parent
from attest.spec import load_spec

KILLED, ALIVE = "killed", "alive"
ANSWERS = 512  # of the oracle, kept by each worker; a criterion of several properties asks for some 200
MUST_BE_EMPTY = (
    "criteria_without_kill",
    "criteria_without_property",
    "criteria_without_defect",
    "files_not_loaded",
    "harness_errors",
)


@dataclass(frozen=True)
class Trial:
    """One defect or variant against one criterion."""

    name: str
    criterion: str
    correct: bool
    profile: str
    seed: int = 0
    plugins: tuple[str, ...] = ()  # whose milestones the trial needs, as --impl takes them


@dataclass(frozen=True)
class Outcome:
    """What became of a trial. Only a failure kills; an error of the harness does not."""

    trial: Trial
    verdict: str
    reason: str
    internal: bool = False
    seconds: float = 0.0

    @property
    def kills(self) -> bool:
        """Whether the criterion refused the implementation."""
        return self.verdict in (FAIL, ERROR) and not self.internal


def run_trial(trial: Trial, places: Sequence[int] | None = None) -> Outcome:
    """Judge one criterion on one defect, without shrinking; `places`: by these of its properties alone."""
    bring_plugins(trial.plugins)
    catalogue: Any = variants() if trial.correct else defects()
    return _judged(trial, catalogue[trial.name].build(), places)


def _judged(trial: Trial, implementation: Any, places: Sequence[int] | None = None) -> Outcome:
    spec = load_spec()
    found = load_properties().get(trial.criterion, [])
    properties = [_unshrunk(p) for n, p in enumerate(found) if places is None or n in places]
    settings = Settings(profile=trial.profile, seed=trial.seed, spec_version=spec.version)
    judged = JudgedImplementation(implementation)
    record: Record = judge(spec.by_id[trial.criterion], properties, judged, settings)
    return Outcome(trial, record.verdict, record.reason, record.internal, record.seconds)


def _unshrunk(property: Any) -> Any:
    return replace(property, shrinks=False)


def bring_plugins(plugins: Iterable[str]) -> list[str]:
    """Take the milestones of these plugins, with operations and defects, into this process; their ids."""
    brought = {m.file for text in plugins for m in bring_milestones(parse_request(text))}
    return [m.id for m in load_spec().milestones if m.file in brought] if brought else []


def check_killers() -> None:
    """UsageError for a defect that names a criterion the spec does not have."""
    for defect in defects().values():
        for id in defect.killers:
            if id not in load_spec().by_id:
                raise UsageError(
                    f"the defect {defect.name} names {id!r}, which is not a criterion; name one of the spec"
                )


def trials(
    chosen: Iterable[Defect],
    correct: Iterable[Variant],
    *,
    profile: str,
    deep: bool,
    plugins: tuple[str, ...] = (),
) -> list[Trial]:
    """Each defect before the criteria it names, each variant before every criterion of its milestones.

    With `deep` a defect stands before every criterion of its milestone. A costly criterion is tried on the
    defects only that name it.
    """
    cheap = [c for c in load_spec().criteria if c.id not in costly_criteria()]
    planned = []
    for defect in chosen:
        more = [c.id for c in cheap if c.milestone == defect.milestone] if deep else []
        ids = dict.fromkeys((*defect.killers, *more))
        planned += [Trial(defect.name, id, False, profile, plugins=plugins) for id in ids]
    for variant in correct:
        asked = [c.id for c in cheap if c.milestone in variant.milestones and c.id not in variant.spared]
        planned += [Trial(variant.name, id, True, profile, plugins=plugins) for id in asked]
    return planned


def run_trials(
    planned: Sequence[Trial], *, workers: int, on_outcome: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
    """All trials in the order of `planned`; they run criterion by criterion, the costly ones first.

    Trials of one criterion meet the same drawn cases, so the oracle answers them from memory. A costly
    criterion, or one of many trials, that began last would leave the other workers idle.
    """
    costly = costly_criteria()
    groups: dict[tuple[str, str, int], list[int]] = {}
    for place, trial in enumerate(planned):
        groups.setdefault((trial.criterion, trial.profile, trial.seed), []).append(place)
    order = sorted(groups.values(), key=lambda g: (planned[g[0]].criterion not in costly, -len(g)))
    outcomes: dict[int, Outcome] = {}
    with _runner(workers) as run:
        for group, answers in zip(order, run(run_group, [[planned[i] for i in group] for group in order])):
            for place, outcome in zip(group, answers):
                outcomes[place] = outcome
                on_outcome(outcome)
    return [outcomes[place] for place in range(len(planned))]


@dataclass(frozen=True)
class Plain:
    """What becomes of the reference at a criterion, and the code that it runs for each property."""

    outcome: Outcome
    seen: tuple[frozenset[CodeType], ...]

    def altered(self, entry: Defect | Variant) -> list[int]:
        """The properties for which the reference runs something that this one overrides."""
        return [place for place, seen in enumerate(self.seen) if _differs(entry, seen)]


def run_group(group: Sequence[Trial]) -> list[Outcome]:
    """The trials of one criterion.

    Where a correct variant overrides nothing of what the reference runs for a property it is the reference
    there, and gets the verdict of the reference: to judge it again would repeat the same calls. A defect that
    dies by what it does not override would show that this rule is wrong, and is an error of the harness.
    """
    bring_plugins(group[0].plugins)
    plain = _judge_reference(group[0]) if any(t.correct for t in group) else None
    return [_in_group(trial, plain) for trial in group]


def _in_group(trial: Trial, plain: Plain | None) -> Outcome:
    if plain is None:
        return run_trial(trial)
    entry = variants()[trial.name] if trial.correct else defects()[trial.name]
    altered = plain.altered(entry)
    if trial.correct:
        outcome = run_trial(trial, altered) if altered else plain.outcome
        return replace(outcome if outcome.kills else plain.outcome, trial=trial)
    outcome = run_trial(trial)
    if outcome.kills and not altered:
        return replace(outcome, internal=True, reason=f"{trial.name} overrides nothing that ran, and died")
    return outcome


def _judge_reference(trial: Trial) -> Plain | None:
    """The reference at each property of this criterion; None where it is not known what ran."""
    outcomes, seen = [], []
    for place in range(len(load_properties().get(trial.criterion, []))):
        ran = Executed()
        watched = Watching(ran.noting).implementation(ReferenceImplementation())
        outcomes.append(_judged(trial, watched, [place]))
        seen.append(frozenset(ran))
        if not ran.complete:
            return None
    if not outcomes:
        return None
    telling = [o for o in outcomes if o.kills] or [o for o in outcomes if o.verdict == NOT_RUN] or outcomes
    return Plain(telling[0], tuple(seen))


def _differs(entry: Defect | Variant, seen: frozenset[CodeType]) -> bool:
    return any(adds_names(piece) or may_matter(piece, seen) for piece in (entry.piece, *entry.also))


@contextmanager
def _runner(workers: int) -> Iterator[Callable[..., Iterable[list[Outcome]]]]:
    """A `map` over separate processes where there are several workers, over this one otherwise."""
    if workers <= 1:
        remember_answers(ANSWERS)
        try:
            yield map
        finally:
            remember_answers(0)
        return
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    import multiprocessing

    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, _begin) as pool:
        yield pool.map


def _begin() -> None:
    """What a worker does first."""
    end_with_parent()  # a pool whose owner was killed waits for work for ever
    remember_answers(ANSWERS)


def summarise(
    outcomes: Sequence[Outcome],
    chosen: Sequence[Defect],
    correct: Sequence[Variant],
    *,
    milestones: Sequence[str] = (),
) -> dict[str, Any]:
    """What selftest.json holds. Every criterion of these milestones, by default of all, must kill."""
    kills: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.kills and not outcome.trial.correct:
            kills.setdefault(outcome.trial.name, []).append(outcome.trial.criterion)
    beyond = beyond_this_machine(outcomes)
    criteria = [c.id for c in load_spec().criteria if not milestones or c.milestone in milestones]
    properties, named = load_properties(), {id for d in defects().values() for id in d.killers}
    killing = {id for ids in kills.values() for id in ids}
    return {
        "format": 1,
        "spec_version": load_spec().version,
        "defects": [_defect_row(d, kills.get(d.name, []), beyond) for d in chosen],
        "variants": [_variant_row(v, outcomes) for v in correct],
        "criteria_without_kill": [id for id in criteria if id not in killing | beyond],
        "criteria_without_property": [id for id in criteria if not properties.get(id)],
        "criteria_without_defect": [id for id in criteria if id not in named],
        "files_not_loaded": [_short(f) for f in files_not_loaded()],
        "harness_errors": [_error_row(o) for o in outcomes if o.internal],
    }


def _defect_row(defect: Defect, killed_by: Sequence[str], beyond: set[str]) -> dict[str, Any]:
    verdict = KILLED if set(defect.killers) - beyond <= set(killed_by) else ALIVE
    return {
        "name": defect.name,
        "milestone": defect.milestone,
        "sin": defect.sin,
        "verdict": verdict,
        "expected": list(defect.killers),
        "killed_by": list(killed_by),
    }


def _variant_row(variant: Variant, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    mine = [o for o in outcomes if o.trial.correct and o.trial.name == variant.name]
    refused = [f"{o.trial.criterion}: {o.reason}" for o in mine if o.kills]
    return {
        "name": variant.name,
        "what": variant.what,
        "verdict": "refused" if refused else "lives",
        "reason": refused[-1] if refused else "",
    }


def _error_row(outcome: Outcome) -> dict[str, Any]:
    trial = asdict(outcome.trial)
    del trial["plugins"]
    return {**trial, "reason": outcome.reason}


def _short(file: Path) -> str:
    """The end of a path; its beginning belongs to this machine."""
    return "/".join(file.parts[-4:])


def beyond_this_machine(outcomes: Iterable[Outcome] = ()) -> set[str]:
    """Criteria that cannot run here, for want of torch or a GPU: they kill nothing and prove nothing."""
    lack = {c.id for c in load_spec().criteria if lacking(c.needs)}
    return lack | {o.trial.criterion for o in outcomes if o.verdict == NOT_RUN}


def passed(summary: dict[str, Any]) -> bool:
    """Every defect dead, every variant alive, every criterion with a property and a defect that it kills."""
    return (
        all(d["verdict"] == KILLED for d in summary["defects"])
        and all(v["verdict"] == "lives" for v in summary["variants"])
        and not any(summary[name] for name in MUST_BE_EMPTY)
    )


def main(
    *,
    deep: bool = False,
    milestones: Sequence[str] = (),
    names: Sequence[str] = (),
    plugins: tuple[str, ...] = (),
    reports: Path | None = Path("reports"),
    workers: int = 2,
    profile: str = "quick",
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> tuple[int, dict[str, Any]]:
    """Run the trials, write selftest.json, and return the exit code with the summary."""
    bring_plugins(plugins)
    check_killers()
    chosen = [
        d
        for d in defects().values()
        if (not milestones or d.milestone in milestones) and (not names or d.name in names)
    ]
    correct = [
        v
        for v in variants().values()
        if (not milestones or set(v.milestones) & set(milestones)) and (not names or v.name in names)
    ]
    planned = trials(chosen, correct, profile=profile, deep=deep, plugins=plugins)
    outcomes = run_trials(planned, workers=workers, on_outcome=on_outcome)
    summary = summarise(outcomes, chosen, correct, milestones=milestones)
    if names:  # some of the defects say nothing about the criteria
        summary |= {name: [] for name in summary if name.startswith("criteria_without")}
    if reports is not None:
        write_text(reports / "selftest.json", json.dumps(summary, indent=1) + "\n")
    return (0 if passed(summary) else 1), summary
