"""What the criteria of attention and of multi-head attention share."""

from __future__ import annotations

import math

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close
from attest.contract import Array, Arrays, Config
from attest.evidence import current, note_case
from attest.judging.cases import OperationCase
from attest.outcomes import NotOffered

RATE = 0.4  # of dropout
# The standard error of the mean over 400 seeds is a twentieth of one draw's: a factor of 1 - p shows.
SEEDS = 400
# Standard errors of the mean over the seeds. A t variable of 399 degrees of freedom lies beyond with a
# probability below 2e-9: that is how often a correct implementation is refused.
LIMIT = 6.2


def expect_weights_before_dropout(impl: JudgedImplementation, case: OperationCase) -> None:
    """In train mode the weights returned, if any, are those of the softmax: dropout acts on a copy."""
    try:
        component = impl.build(case.operation, case.config.but(dropout=0.5))
        if case.parameters:
            component.load(case.parameters)
        component.train(case.seed)
    except NotOffered:
        return
    seen = component(**case.inputs)
    if "weights" in seen:
        what = "weights in training"
        expect_close(seen["weights"], case.expected["weights"], what, factor=component.widening)


def expect_mean_of_evaluation(
    impl: JudgedImplementation,
    case: OperationCase,
    config: Config,
    inputs: Arrays,
    parameters: Arrays | None = None,
) -> None:
    """Where all values are one, what queries get in training is on average what they get in evaluation."""
    note_case(f"{case} p={config.dropout}, {SEEDS} seeds", "train")
    try:
        component = impl.build(case.operation, config)
        if parameters:
            component.load(parameters)
        component.train(0)
    except NotOffered:
        return
    seen = []
    for seed in range(SEEDS):
        component.train(seed)
        seen.append(float(component(**inputs)["output"].mean(dtype=np.float64)))
    component.eval()
    wanted = case.expected_for(inputs, parameters)["output"]
    whole = float(wanted.value.mean())  # less than one where sinks take a share
    expect_mean_of_one(np.array(seen) / whole, 2 * float(wanted.bound.max()) / whole)


def expect_mean_of_one(seen: Array, bound: float) -> None:
    """Within LIMIT standard errors, or within the bound where nothing varies."""
    mean, error = float(seen.mean()), float(seen.std(ddof=1)) / math.sqrt(len(seen))
    allowed = LIMIT * error + bound
    current().saw(abs(mean - 1) / allowed)
    sentence = f"the mean over {len(seen)} seeds of what all-ones values give in training is {mean:.4g}"
    expect(abs(mean - 1) <= allowed, f"{sentence}, should be 1 within {allowed:.2g}")
