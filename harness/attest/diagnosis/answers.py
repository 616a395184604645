"""Put a noted call to another implementation, and compare what it says with what was heard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attest.boundary import Call, JudgedComponent, JudgedImplementation, Run
from attest.boundary.training import run_again
from attest.contract import Array, Arrays, Config
from attest.contract.parameters import shapes
from attest.outcomes import NotOffered, NotRun, Violation


@dataclass(frozen=True)
class Answer:
    """What an implementation says to a call: arrays, or the class of what it raised."""

    outputs: Arrays | None
    raised: str = ""


def cost(call: Call) -> int:
    """What asking this costs, in calls; a training run costs one for each of its steps."""
    return len(call.batches) if isinstance(call, Run) else 1


def comparable(call: Call) -> bool:
    """Whether two correct implementations give the same answer: same parameters, nothing random."""
    if call.seed is not None:
        return False  # dropout draws differ between correct implementations
    learned = bool(shapes(call.operation, call.config)) if call.config else False
    return call.parameters is not None or not learned


def answer(impl: JudgedImplementation, call: Call) -> Answer:
    """What an implementation says to a call."""
    try:
        return Answer(_outputs(impl, call))
    except Violation as violation:
        return Answer(None, violation.raised)
    except (NotOffered, NotRun):
        return Answer(None)


def _outputs(impl: JudgedImplementation, call: Call) -> Arrays:
    if call.config is None:
        return {"output": impl.call(call.operation, *call.inputs.values())}
    if isinstance(call, Run):
        return run_again(impl, call)
    component = impl.build(call.operation, _exact(call.config, impl))
    if call.parameters is not None:
        component.load(call.parameters)
    return _ask(component, call)


def _exact(config: Config, impl: JudgedImplementation) -> Config:
    return config if config.dtype in impl.dtypes else config.but(dtype="float32")


def _ask(component: JudgedComponent, call: Call) -> Arrays:
    if call.method != "gradients":
        return component.method(call.method, **call.inputs)
    inputs = {name: value for name, value in call.inputs.items() if name != "cotangents"}
    found = component.gradients(inputs, call.inputs["cotangents"])
    return {**found.inputs, **found.parameters}


def same_answer(answer: Answer, call: Call) -> bool:
    theirs, mine = answer.outputs, call.outputs
    if theirs is None or mine is None:
        # Only the same class: a misspelt name in a plugin is not the refusal of a defect.
        return theirs is None and mine is None and answer.raised == call.raised != ""
    names = theirs.keys() & mine.keys()
    return bool(names) and all(close(theirs[n], mine[n]) for n in names)


def close(a: Array, b: Array) -> bool:
    """Whether two answers agree; the tolerance is far wider than rounding, far narrower than any defect."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f" or not a.size:
        return bool(np.array_equal(a, b))
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    slack = 1e-6 if a.dtype == b.dtype == np.float64 else 1e-3
    scale = float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0))
    return bool(np.allclose(a, b, rtol=slack, atol=slack * (0.1 * scale + 1e-6), equal_nan=True))
