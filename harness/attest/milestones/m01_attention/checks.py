"""What the criteria of attention and of multi-head attention share."""

from __future__ import annotations

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close
from attest.judging.cases import OperationCase
from attest.outcomes import NotOffered


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
