"""Which known defect a failing implementation behaves like.

The property is run again on the failing case and on others it draws; the calls it makes are put to every
known defect, and the answers compared. Only cases where it differs from the reference count.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attest.boundary import Call, JudgedComponent, JudgedImplementation, Run
from attest.boundary.training import run_again
from attest.contract import Array, Arrays, Config
from attest.contract.parameters import shapes
from attest.judging.catalogue import Defect, defects
from attest.judging.evidence import collecting
from attest.judging.property import EXAMPLES, Property, run_property
from attest.order import milestone_order
from attest.outcomes import NotOffered, NotRun, Violation
from attest.reference.implementation import ReferenceImplementation

NEIGHBOURS = 40
STEPS = 4  # of a trainer
FIRST = 8  # a defect that answers none of these the same is not tried on the rest
SURE = 0.9
POSSIBLE = 0.3
FEW = 4  # telling cases: with fewer an agreement may be chance, and the sentence says so
NUMBER = r"-?\d+\.?\d*(?:e[-+]?\d+)?"


@dataclass(frozen=True)
class Likeness:
    """A defect and on how many telling cases it answers the same."""

    defect: str
    agrees: int
    cases: int

    def __str__(self) -> str:
        cases = "1 case" if self.cases == 1 else f"{self.cases} cases"
        doubt = ", too few to be sure" if self.cases < FEW else ""
        return f"{self.defect} (agrees on {self.agrees} of {cases}{doubt})"

    @property
    def share(self) -> float:
        """Of the telling cases."""
        return self.agrees / self.cases


def diagnose(
    property: Property, impl: JudgedImplementation, case: str, *, seed: int, seconds: float = 20.0
) -> tuple[list[Likeness], int]:
    """The nearest defects, best first, and how many were compared. Stops after `seconds`."""
    deadline = time.monotonic() + seconds
    candidates = _candidates(property.criterion)
    traces = _traces(property, impl, case, seed)
    with collecting():
        telling = [t for t in traces if not _agrees(_reference(), t)]
        if telling:
            found = list(_by_answers(candidates, telling, deadline))
        else:
            found = list(_by_sentence(candidates, property, impl, case, deadline))
    return sorted(found, key=lambda likeness: (-likeness.share, likeness.defect)), len(candidates)


def sentence(found: Sequence[Likeness], compared: int) -> str:
    """One line for the report."""
    sure = [likeness for likeness in found if likeness.share >= SURE]
    if sure:
        best = [likeness for likeness in sure if likeness.share == sure[0].share]
        return " or ".join(str(likeness) for likeness in best[:2])
    possible = [str(likeness) for likeness in found if likeness.share >= POSSIBLE][:2]
    return " or ".join(possible) if possible else f"none of {compared} known defects"


def _candidates(criterion: str) -> list[Defect]:
    """Defects that name the criterion first, then those of its milestone and of earlier ones."""
    milestone = criterion.partition(".")[0]
    every = list(defects().values())
    return sorted(
        (d for d in every if milestone_order(d.milestone) <= milestone_order(milestone)),
        key=lambda d: (criterion not in d.killers, d.milestone != milestone),
    )


def _reference() -> JudgedImplementation:
    return JudgedImplementation(ReferenceImplementation())


def _traces(property: Property, impl: JudgedImplementation, case: str, seed: int) -> list[list[Call]]:
    traces = []
    if property.strategies:
        traces.append(trace_of(property, impl, case, seed))
        listening = replace(
            property, check=_swallowing(property, traces), effort=_effort(property), shrinks=False
        )
        with collecting():
            run_property(listening, impl, profile="quick", seed=seed + 1)
    else:
        traces.append(trace_of(property, impl, None, seed))
    return [t for t in traces if t]


def _effort(property: Property) -> float:
    """Enough for forty cases; fewer where a case is dear."""
    return min(1.0, property.effort) * (NEIGHBOURS - 1) / EXAMPLES["quick"]


def _swallowing(property: Property, traces: list[list[Call]]) -> Any:
    def check(impl: JudgedImplementation, **drawn: Any) -> None:
        with _ears(impl) as calls:
            _quietly(lambda: property.check(impl, **drawn))
            _train_on(calls)
        traces.append(calls)

    return check


def trace_of(property: Property, impl: JudgedImplementation, case: str | None, seed: int) -> list[Call]:
    """The calls a property makes on one case."""
    case = case if property.strategies else None
    with collecting(), _ears(impl) as calls:
        _quietly(lambda: run_property(property, impl, profile="quick", seed=seed, witness=case))
        _train_on(calls)
    return calls


def _train_on(calls: Sequence[Call]) -> None:
    """A property stops at the first wrong step; what the next ones do tells trainers apart."""
    for run in [call for call in calls if isinstance(call, Run)]:
        for _ in range(STEPS - len(run.batches)):
            _quietly(lambda run=run: run.trainer.step(run.batches[-1]))


class _ears:
    """Listen to an implementation's calls while the body runs."""

    def __init__(self, impl: JudgedImplementation) -> None:
        self.impl = impl

    def __enter__(self) -> list[Call]:
        self.impl.calls = []
        return self.impl.calls

    def __exit__(self, *exception: object) -> None:
        self.impl.calls = None


def _quietly(run: Any) -> None:
    try:
        run()
    except (Violation, NotOffered, NotRun):
        return


def _by_answers(
    candidates: Sequence[Defect], telling: Sequence[Sequence[Call]], deadline: float
) -> Iterator[Likeness]:
    for defect in candidates:
        if time.monotonic() > deadline:
            return
        defective = JudgedImplementation(defect.build())
        agrees = sum(_agrees(defective, trace) for trace in telling[:FIRST])
        if not agrees:
            continue
        agrees += sum(_agrees(defective, trace) for trace in telling[FIRST:])
        yield Likeness(defect.name, agrees, len(telling))


def _by_sentence(
    candidates: Sequence[Defect], property: Property, impl: JudgedImplementation, case: str, deadline: float
) -> Iterator[Likeness]:
    """Where nothing can be compared by value: the defect that fails the same case in the same words."""
    mine = _complaint(property, impl, case)
    for defect in candidates:
        if time.monotonic() > deadline or property.criterion not in defect.killers:
            return
        if mine and same_words(_complaint(property, JudgedImplementation(defect.build()), case), mine):
            yield Likeness(defect.name, 1, 1)


def _complaint(property: Property, impl: JudgedImplementation, case: str) -> str:
    with collecting():
        try:
            witness = case if property.strategies else None
            run_property(property, impl, profile="quick", seed=0, witness=witness)
        except Violation as violation:
            return violation.seen
        except (NotOffered, NotRun):
            return ""
    return ""


def same_words(one: str, other: str) -> bool:
    """The same sentence, its numbers equal to three digits; how far beyond the bound does not count."""
    one, other = (re.sub(r"\([^()]* times [^()]*\)", "", text) for text in (one, other))
    if re.sub(NUMBER, "#", one) != re.sub(NUMBER, "#", other):
        return False
    pairs = zip(re.findall(NUMBER, one), re.findall(NUMBER, other))
    return all(math.isclose(float(a), float(b), rel_tol=1e-3, abs_tol=1e-9) for a, b in pairs)


def _agrees(impl: JudgedImplementation, trace: Sequence[Call]) -> bool:
    return all(_same(answer(impl, call), call.outputs) for call in trace if comparable(call))


def comparable(call: Call) -> bool:
    """Whether two correct implementations give the same answer: same parameters, nothing random."""
    if call.seed is not None:
        return False  # dropout draws differ between correct implementations
    learned = bool(shapes(call.operation, call.config)) if call.config else False
    return call.parameters is not None or not learned


def answer(impl: JudgedImplementation, call: Call) -> Arrays | None:
    """What an implementation says to a call; None where it refuses."""
    try:
        if call.config is None:
            return {"output": impl.call(call.operation, *call.inputs.values())}
        if isinstance(call, Run):
            return run_again(impl, call)
        component = impl.build(call.operation, _exact(call.config, impl))
        if call.parameters is not None:
            component.load(call.parameters)
        return _ask(component, call)
    except (Violation, NotOffered, NotRun):
        return None


def _exact(config: Config, impl: JudgedImplementation) -> Config:
    return config if config.dtype in impl.dtypes else config.but(dtype="float32")


def _ask(component: JudgedComponent, call: Call) -> Arrays:
    if call.method != "gradients":
        return component.method(call.method, **call.inputs)
    inputs = {name: value for name, value in call.inputs.items() if name != "cotangents"}
    found = component.gradients(inputs, call.inputs["cotangents"])
    return {**found.inputs, **found.parameters}


def _same(theirs: Arrays | None, mine: Arrays | None) -> bool:
    if theirs is None or mine is None:
        return theirs is None and mine is None
    names = theirs.keys() & mine.keys()
    return bool(names) and all(close(theirs[n], mine[n]) for n in names)


def close(a: Array, b: Array) -> bool:
    """Far wider than any rounding, far narrower than any defect."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f" or not a.size:
        return bool(np.array_equal(a, b))
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    slack = 1e-6 if a.dtype == b.dtype == np.float64 else 1e-3
    scale = float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0))
    return bool(np.allclose(a, b, rtol=slack, atol=slack * (0.1 * scale + 1e-6), equal_nan=True))


def looks_like(property: Property, impl: JudgedImplementation, case: str, seed: int) -> str:
    """The sentence for one failure; empty where every comparison would be a training."""
    if property.trains:
        return ""
    found, compared = diagnose(property, impl, case, seed=seed)
    return sentence(found, compared)
