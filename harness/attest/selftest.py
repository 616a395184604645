"""The harness on trial: every defect dies by each criterion that names it, every correct variant lives."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attest.boundary import JudgedImplementation
from attest.judging.catalogue import Defect, Variant, defects, variants
from attest.judging.property import load_properties
from attest.machine import cuda_available
from attest.records.record import ERROR, FAIL, Record
from attest.report.writing import write_text
from attest.running.judging import Settings, judge
from attest.spec import load_spec

KILLED, ALIVE = "killed", "alive"
COSTLY = frozenset({"M5.4", "M6.5", "M6.6"})  # they train or time; only who is named for it is tried


@dataclass(frozen=True)
class Trial:
    """One defect or variant against one criterion."""

    name: str
    criterion: str
    correct: bool
    profile: str
    seed: int = 0


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


def run_trial(trial: Trial) -> Outcome:
    """Judge one criterion on one defect, without shrinking."""
    catalogue: Any = variants() if trial.correct else defects()
    impl = JudgedImplementation(catalogue[trial.name].build())
    spec = load_spec()
    properties = [_unshrunk(p) for p in load_properties()[trial.criterion]]
    settings = Settings(profile=trial.profile, seed=trial.seed, spec_version=spec.version)
    record: Record = judge(spec.by_id[trial.criterion], properties, impl, settings)
    return Outcome(trial, record.verdict, record.reason, record.internal, record.seconds)


def _unshrunk(property: Any) -> Any:
    from dataclasses import replace

    return replace(property, shrinks=False)


def trials(chosen: Iterable[Defect], correct: Iterable[Variant], *, profile: str, deep: bool) -> list[Trial]:
    """Expected killers only; deep: every criterion of the defect's milestone and those above it."""
    spec = load_spec()
    planned = []
    for defect in chosen:
        ids = (
            [c.id for c in spec.criteria if _sees(c.milestone, defect.milestone) and c.id not in COSTLY]
            if deep
            else defect.killers
        )
        planned += [Trial(defect.name, id, False, profile) for id in dict.fromkeys((*defect.killers, *ids))]
    for variant in correct:
        excused = COSTLY | set(variant.spared)
        ids = tuple(c.id for c in spec.criteria if c.milestone in variant.milestones and c.id not in excused)
        planned += [Trial(variant.name, id, True, profile) for id in ids]
    return planned


def _sees(criterion_milestone: str, defect_milestone: str) -> bool:
    return criterion_milestone == defect_milestone


def run_trials(
    planned: Sequence[Trial], *, workers: int, on_outcome: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
    """All trials, in processes of their own where there are several workers."""
    outcomes = []
    if workers <= 1:
        for trial in planned:
            outcomes.append(run_trial(trial))
            on_outcome(outcomes[-1])
        return outcomes
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    import multiprocessing

    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for outcome in pool.map(run_trial, planned, chunksize=4):
            outcomes.append(outcome)
            on_outcome(outcome)
    return outcomes


def summarise(
    outcomes: Sequence[Outcome], chosen: Sequence[Defect], correct: Sequence[Variant]
) -> dict[str, Any]:
    """What selftest.json holds."""
    kills: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.kills and not outcome.trial.correct:
            kills.setdefault(outcome.trial.name, []).append(outcome.trial.criterion)
    beyond = beyond_this_machine()
    rows = []
    for defect in chosen:
        dead_by = kills.get(defect.name, [])
        verdict = KILLED if set(defect.killers) - beyond <= set(dead_by) else ALIVE
        rows.append(
            {
                "name": defect.name,
                "milestone": defect.milestone,
                "sin": defect.sin,
                "verdict": verdict,
                "expected": list(defect.killers),
                "killed_by": dead_by,
            }
        )
    refused = {
        o.trial.name: f"{o.trial.criterion}: {o.reason}" for o in outcomes if o.trial.correct and o.kills
    }
    named = {id for ids in kills.values() for id in ids}
    milestones = {d.milestone for d in chosen}
    return {
        "format": 1,
        "spec_version": load_spec().version,
        "defects": rows,
        "variants": [
            {
                "name": v.name,
                "what": v.what,
                "verdict": "refused" if v.name in refused else "lives",
                "reason": refused.get(v.name, ""),
            }
            for v in correct
        ],
        "criteria_without_kill": [
            c.id for c in load_spec().criteria if c.milestone in milestones and c.id not in named | beyond
        ],
        "harness_errors": [{**asdict(o.trial), "reason": o.reason} for o in outcomes if o.internal],
    }


def beyond_this_machine() -> set[str]:
    """Criteria that need a GPU where there is none: they kill nothing here and prove nothing."""
    return set() if cuda_available() else {c.id for c in load_spec().criteria if "cuda" in c.needs}


def passed(summary: dict[str, Any]) -> bool:
    """Every defect dead, every criterion proved able to fail, every variant alive."""
    return (
        all(d["verdict"] == KILLED for d in summary["defects"])
        and all(v["verdict"] == "lives" for v in summary["variants"])
        and not summary["criteria_without_kill"]
        and not summary["harness_errors"]
    )


def main(
    *,
    deep: bool = False,
    milestones: Sequence[str] = (),
    names: Sequence[str] = (),
    reports: Path | None = Path("reports"),
    workers: int = 2,
    profile: str = "quick",
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> tuple[int, dict[str, Any]]:
    """Run the trials, write selftest.json, and return the exit code with the summary."""
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
    planned = trials(chosen, correct, profile=profile, deep=deep)
    summary = summarise(run_trials(planned, workers=workers, on_outcome=on_outcome), chosen, correct)
    if names:  # some of the defects say nothing about which criteria kill none
        summary["criteria_without_kill"] = []
    if reports is not None:
        write_text(reports / "selftest.json", json.dumps(summary, indent=1) + "\n")
    return (0 if passed(summary) else 1), summary


if __name__ == "__main__":
    code, result = main(reports=None, milestones=sys.argv[1:], workers=1)
    for row in [*result["defects"], *result["variants"]]:
        if row["verdict"] not in (KILLED, "lives"):
            print(row)
    print("without kill:", result["criteria_without_kill"], "errors:", result["harness_errors"])
    sys.exit(code)
