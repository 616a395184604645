"""Write a short Python file that fails as the criterion did, importing only the implementation and numpy.

The property is run once more on the failing case while everything asked of the implementation is recorded.
The steps that matter become the script. It is tried before it is written: one that does not fail with the
message of the failure is not kept.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation, quiet
from attest.diagnosis.claims import Claim, claims, root
from attest.diagnosis.recording import Recording, Ref, Step
from attest.diagnosis.script import TOOLS, Script, Unwritable, text_of
from attest.evidence import collecting
from attest.judging.property import Property, run_property
from attest.outcomes import NotOffered, NotRun, Violation
from attest.records.failure import Failure, Reproduction
from attest.records.record import Record

MOST_TRIALS = 12  # scripts that are tried before giving up
# Methods that only answer: a script leaves them out unless it does not fail without them.
ANSWERS = frozenset({"__call__", "parameters", "gradients", "buffers", "encode", "decode", "evaluate"})
TRAINS = "the criterion trains a model, and a script would have to train it too"
NOT_AGAIN = "the failure did not show when the property ran this case once more"
NO_STEP = (
    "no single answer is wrong by itself: the criterion judges side effects, time, counts or many answers"
)


def write_reproduction(
    record: Record, property: Property, impl: JudgedImplementation, request: str, reports: Path
) -> Reproduction:
    """Write reports/<implementation>/repro/M1_5.py; the file's place below there, or why there is none."""
    assert record.failure is not None
    if property.trains:
        return Reproduction(reason=TRAINS)
    steps, violation = _recorded(property, impl, record)
    if violation is None:
        return Reproduction(reason=NOT_AGAIN)
    try:
        script = _failing_script(steps, violation, record.failure, impl.implementation)
    except Unwritable as reason:
        return Reproduction(reason=str(reason))
    if script is None:
        return Reproduction(reason=NO_STEP)
    home = reports / record.implementation
    path = home / "repro" / f"{record.criterion.replace('.', '_')}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in (path, path.with_suffix(".npz")):
        old.unlink(missing_ok=True)  # a link here would lead the writing elsewhere
    title = f"{record.criterion} on {record.implementation}"
    path.write_text("\n".join(text_of(script, title, request, impl.name, path)) + "\n", encoding="utf-8")
    return Reproduction(file=str(path.relative_to(home)))


def _recorded(
    property: Property, impl: JudgedImplementation, record: Record
) -> tuple[list[Step], Violation | None]:
    """Everything asked of the implementation on the failing case, and how it failed this time."""
    assert record.failure is not None
    recording = Recording()
    listened = JudgedImplementation(recording.implementation(impl.implementation), device=impl.device)
    listened.dtypes = impl.dtypes
    witness = record.failure.case if property.strategies else None
    with collecting():
        try:
            run_property(property, listened, profile=record.profile, seed=record.seed, witness=witness)
        except Violation as violation:
            return recording.steps, violation
        except (NotOffered, NotRun):
            pass
    return recording.steps, None


def _failing_script(
    steps: Sequence[Step], violation: Violation, failure: Failure, implementation: Any
) -> Script | None:
    tried = 0
    for claim in claims(steps, violation):
        for kept in _selections(steps, claim):
            tried += 1
            script = Script(steps, kept, claim, failure.seen)
            if fails(script, implementation):
                return script
            if tried >= MOST_TRIALS:
                return None
    return None


def _selections(steps: Sequence[Step], claim: Claim) -> Iterator[list[int]]:
    """Which steps a script makes: as few as may do first, then all on the same objects, then all."""
    last = claim.step
    whole = [k for k in range(last + 1) if k == last or not steps[k].raised]
    roots = _roots(steps, [k for k in (last, claim.also) if k is not None])
    near = [k for k in whole if (k if steps[k].target == Ref() else root(steps, steps[k].target)) in roots]
    referred = {ref.step for k in near for ref in _refs(steps[k])}
    few = [k for k in near if k in (last, claim.also) or k in referred or steps[k].method not in ANSWERS]
    seen: list[list[int]] = []
    for kept in (few, near, whole):
        if kept not in seen:
            seen.append(kept)
            yield kept


def _roots(steps: Sequence[Step], chosen: Sequence[int]) -> set[int]:
    """The builders of all objects that these steps need, and of those that these were made with."""
    found: set[int] = set()
    open_steps = list(chosen)
    while open_steps:
        k = open_steps.pop()
        for ref in [*_refs(steps[k]), Ref(k)]:
            at = root(steps, ref)
            if at >= 0 and at not in found:
                found.add(at)
                open_steps += [
                    i for i, s in enumerate(steps) if i <= max(chosen) and root(steps, s.target) == at
                ]
    return found


def _refs(step: Step) -> Iterator[Ref]:
    yield step.target
    for value in (*step.args, *step.kwargs.values()):
        yield from (
            item for item in (value if isinstance(value, list | tuple) else [value]) if isinstance(item, Ref)
        )


def fails(script: Script, implementation: Any) -> bool:
    """Whether the body, run here, raises an AssertionError with exactly the message."""
    names: dict[str, Any] = {"np": np, "re": re, "sys": sys, "tempfile": tempfile, "Path": Path}
    names |= {"SimpleNamespace": SimpleNamespace, "arrays": script.arrays, "implementation": implementation}
    with quiet(), collecting():
        try:
            exec("\n".join([*TOOLS.splitlines(), *script.lines]), names)
        except AssertionError as error:
            return str(error) == script.message
        except Exception:
            return False
    return False
