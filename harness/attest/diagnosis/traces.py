"""What a property asks of an implementation, case by case, and which answers differ from the reference.

Everything that is asked is noted as steps: components, trainers, optimisers, schedules and plain functions
alike. The steps of one case can be put to any other implementation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from types import FrameType
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation, quiet
from attest.contract import OPERATIONS, Array, Config, Form
from attest.diagnosis.answers import close
from attest.diagnosis.claims import comparable, root
from attest.diagnosis.recording import Answer, Once, Recording, Ref, Step, answers
from attest.evidence import collecting
from attest.judging.property import EXAMPLES, Property, run_property
from attest.outcomes import NotOffered, NotRun, Violation
from attest.reference.implementation import ReferenceImplementation

NEIGHBOURS = 40
FURTHER = 4  # steps of a trainer: later ones tell trainers apart
# Methods that only answer: what they gave need not be asked again unless it is compared.
ANSWERS = frozenset({"__call__", "parameters", "gradients", "buffers", "evaluate", "encode", "decode"})
UNIT = 300  # functions that the reference calls; a small part calls no more
REFUSED = "NotImplementedError"  # says: not offered


@dataclass(frozen=True)
class Trace:
    """The steps of one case, which of them two right implementations answer alike, and what is right."""

    steps: Sequence[Step]
    compared: frozenset[int]
    right: Mapping[int, Answer]
    wrong: frozenset[int]

    @property
    def tells(self) -> bool:
        """Whether an answer differs from the reference."""
        return bool(self.wrong)

    @property
    def by_value(self) -> bool:
        """Whether a wrong answer is an answer, and not only an exception."""
        return any(not self.steps[k].raised for k in self.wrong)

    @property
    def finite(self) -> bool:
        """Whether no wrong answer overflows: that depends on how the right steps before it are written."""
        return all(
            bool(np.isfinite(array).all())
            for k in self.wrong
            for array in self.steps[k].values.values()
            if array.dtype.kind == "f"
        )

    def form(self, k: int) -> Form | None:
        """What kind of operation a step is about; None for one of a plugin that is not registered."""
        record = OPERATIONS.get(operation_of_step(self.steps, k))
        return record.form if record is not None else None

    def cost(self, k: int) -> int:
        """About as how many calls of a small part it counts, on a busy machine as on another."""
        return 1 + self.work[k] // UNIT

    @cached_property
    def work(self) -> Mapping[int, int]:
        """How many functions the reference calls in each step."""
        made: dict[int, int] = {}
        called = 0

        def count(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal called
            called += event == "call"

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            for k, _ in answers(self.steps, ReferenceImplementation()):
                made[k], called = called, 0
        finally:
            sys.setprofile(before)
        return made


class Count:
    """Calls that were made, and how many may be."""

    def __init__(self, most: int) -> None:
        self.most = self.left = most

    @property
    def spent(self) -> bool:
        """Whether no further candidate is begun."""
        return self.left <= 0


def traces_of(property: Property, impl: JudgedImplementation, case: str | None, seed: int) -> list[Trace]:
    """The failing case first, then others that the property draws."""
    recording = Recording()
    listened = JudgedImplementation(recording.implementation(impl.implementation), device=impl.device)
    listened.dtypes, listened.options = impl.dtypes, impl.options
    spans: list[tuple[int, int]] = []

    def noted(run: Any) -> None:
        start = len(recording.steps)
        with suppress(Violation, NotOffered, NotRun):
            run()
        train_on(recording, start)
        spans.append((start, len(recording.steps)))

    def check(impl: JudgedImplementation, **drawn: Any) -> None:
        noted(lambda: property.check(impl, **drawn))

    witness = case if property.strategies else None
    with collecting():
        noted(lambda: run_property(property, listened, profile="quick", seed=seed, witness=witness))
        if property.strategies:
            others = replace(property, check=check, effort=_effort(property), shrinks=False)
            run_property(others, listened, profile="quick", seed=seed + 1)
        found = (trace_of(recording.steps, *span) for span in spans)
        return [trace for trace in found if trace is not None]


def _effort(property: Property) -> float:
    """How many calls may be spent: enough for forty cases, fewer where one case takes many calls."""
    return min(1.0, property.effort) * (NEIGHBOURS - 1) / EXAMPLES["quick"]


def train_on(recording: Recording, start: int) -> None:
    """A property stops at the first wrong step; what the next ones do tells trainers apart."""
    steps = recording.steps
    made = [(k, s) for k, s in enumerate(steps) if k >= start and s.method == "step" and not s.raised]
    last = {root(steps, step.target): (k, step) for k, step in made if _is_trainer(steps, step)}
    for at, (_, step) in last.items():
        taken = sum(root(steps, other.target) == at for _, other in made)
        trainer = recording.objects[at]
        try:
            with quiet():
                for _ in range(FURTHER - taken):
                    trainer.step(*step.args)
                trainer.model.parameters()
        except Exception:
            continue


def _is_trainer(steps: Sequence[Step], step: Step) -> bool:
    at = root(steps, step.target)
    return at >= 0 and steps[at].method in OPERATIONS and OPERATIONS[steps[at].method].form is Form.TRAINER


def trace_of(steps: Sequence[Step], start: int, stop: int) -> Trace | None:
    """The steps of one case with the builders that they need, numbered from 0; None where there are none."""
    own = list(range(start, stop))
    built = sorted({at for k in own for at in _roots(steps, steps[k]) if 0 <= at < start})
    places = {k: i for i, k in enumerate([*built, *own])}
    chosen = [_renumbered(steps[k], places) for k in [*built, *own]]
    compared = {k for k in range(len(built), len(chosen)) if _is_comparable(chosen, k)}
    if not compared:
        return None
    kept = sorted(_needed(chosen, compared))
    again = {k: i for i, k in enumerate(kept)}
    chosen = [_renumbered(chosen[k], again) for k in kept]
    numbers = frozenset(again[k] for k in compared)
    right = dict(answers(chosen, ReferenceImplementation()))
    wrong = frozenset(k for k in numbers if _differs(chosen, k, right[k]))
    return Trace(chosen, numbers, right, wrong)


def _is_comparable(steps: Sequence[Step], k: int) -> bool:
    step = steps[k]
    if step.raised == REFUSED:
        return False
    record = OPERATIONS.get(step.method)
    if step.target == Ref() and (record is None or "seed" in record.takes):
        return False
    searched = step.kwargs.get("method") in ("beam", "greedy")
    if searched and "seed" in step.kwargs:  # nothing is drawn
        without = {name: value for name, value in step.kwargs.items() if name != "seed"}
        steps = [*steps[:k], replace(step, kwargs=without)]
    return comparable(steps, k)


def _needed(steps: Sequence[Step], compared: set[int]) -> set[int]:
    """What is compared, what that refers to, and whatever may have changed a state before it."""
    needed = set(compared)
    for k in range(max(compared), -1, -1):
        if steps[k].method not in ANSWERS and not steps[k].raised:
            needed.add(k)
        if k in needed:
            needed |= {ref.step for ref in _refs(steps[k]) if ref.step is not None}
    return needed


def _roots(steps: Sequence[Step], step: Step) -> Iterator[int]:
    for ref in _refs(step):
        yield root(steps, ref)


def _refs(value: Any) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, Step):
        yield value.target
        yield from _refs([*value.args, *value.kwargs.values()])
    elif isinstance(value, Once):
        yield from _refs(value.items)
    elif isinstance(value, Mapping):
        yield from _refs(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _refs(item)


def _renumbered(value: Any, places: Mapping[int, int]) -> Any:
    """The same with references to the new numbers of the steps."""
    if isinstance(value, Ref):
        return value if value.step is None else Ref(places[value.step], value.path)
    if isinstance(value, Step):
        args = tuple(_renumbered(a, places) for a in value.args)
        kwargs = {name: _renumbered(a, places) for name, a in value.kwargs.items()}
        return replace(value, target=_renumbered(value.target, places), args=args, kwargs=kwargs)
    if isinstance(value, Once):
        return Once([_renumbered(item, places) for item in value.items])
    if isinstance(value, Mapping):
        return {name: _renumbered(item, places) for name, item in value.items()}
    if isinstance(value, list | tuple) and any(True for _ in _refs(value)):
        return type(value)(_renumbered(item, places) for item in value)
    return value


def _differs(steps: Sequence[Step], k: int, right: Answer) -> bool:
    """Whether the implementation is wrong here: two refusals of different classes are both refusals."""
    if steps[k].raised and right.raised:
        return False
    return not _same(steps, k, right)


def agrees(trace: Trace, implementation: Any, count: Count) -> bool:
    """Whether another implementation gives each compared answer of the trace, asked one by one."""
    with np.errstate(all="ignore"):  # and what a defect sets here ends here
        for k, answer in answers(trace.steps, implementation):
            count.left -= 1
            if k not in trace.compared or _both_right(trace, k, answer):
                continue
            if not _same(trace.steps, k, answer):
                return False
    return True


def _both_right(trace: Trace, k: int, answer: Answer) -> bool:
    """Where the reference refuses and the implementation does, the class does not tell faults apart."""
    return k not in trace.wrong and bool(trace.steps[k].raised and answer.raised)


def _same(steps: Sequence[Step], k: int, answer: Answer) -> bool:
    """Whether an answer is the one the implementation gave; of exceptions, whether the class is."""
    step = steps[k]
    if step.raised or answer.raised:
        return step.raised == answer.raised
    mine, theirs = told(steps, k, step.values), told(steps, k, answer.values)
    names = mine.keys() & theirs.keys()
    return bool(names or not mine or not theirs) and all(close(theirs[n], mine[n]) for n in names)


def told(steps: Sequence[Step], k: int, values: Mapping[str, Array]) -> Mapping[str, Array]:
    """The numbers of a step that tell something: of trained parameters how far they have come.

    Their key biases are left out: their gradient is rounding noise, and Adam turns noise into full steps.
    """
    if steps[k].method != "parameters":
        return values
    start = _loaded_before(steps, k)
    if start is None:
        return values
    far = {
        f"[{name!r}]": values[f"[{name!r}]"] - np.asarray(array, values[f"[{name!r}]"].dtype)
        for name, array in start.items()
        if f"[{name!r}]" in values and not name.endswith("key.bias")
        if values[f"[{name!r}]"].shape == np.shape(array)
    }
    return far or values


def _loaded_before(steps: Sequence[Step], k: int) -> Mapping[str, Any] | None:
    """What was loaded last, where a step of training came after it."""
    at, trained = root(steps, steps[k].target), False
    for step in reversed(steps[:k]):
        if root(steps, step.target) != at:
            continue
        trained = trained or step.method in ("step", "accumulate", "fit")
        if step.method == "load" and step.args and isinstance(step.args[0], Mapping):
            return step.args[0] if trained else None
    return None


def config_of(steps: Sequence[Step], k: int) -> Config | None:
    """The config of the component that a step is about."""
    at = root(steps, steps[k].target)
    first = steps[at].args[0] if at >= 0 and steps[at].args else None
    return first if isinstance(first, Config) else None


def operation_of_step(steps: Sequence[Step], k: int) -> str:
    """The operation that a step is about."""
    at = root(steps, steps[k].target)
    return steps[at].method if at >= 0 else steps[k].method
