"""M10: the value of each layer, what it refuses, and what a call leaves alone."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_near, expect_refused
from attest.contract import float_dtype
from attest.evidence import note_case
from attest.judging.laws import (
    FORMULA,
    GRADIENTS,
    MEMORY_LAYOUT,
    ROW_ALONE,
    SIDE_EFFECTS_IN_TRAINING,
    law_holds,
    law_is_exempt,
)
from attest.judging.property import given, verifies
from attest.milestones.m10_first_principles.cases.layers import ANY_SIZE, OWN, PIECES, PieceCase, piece_cases
from attest.reference.oracle import EPSILON

ROWS = ("linear", "activation", "softmax")
WRONG = ("high", "negative", "row", "length")

for _layer, _activation in PIECES:
    _label = _activation if _layer == "activation" else _layer
    law_holds(
        FORMULA,
        "M10.11",
        piece_cases(layers=(_layer,), activations=(_activation,), regimes=ANY_SIZE),
        _layer,
        name=f"{_label}_equals_its_formula",
        sentence=f"{_label} by its formula, for numbers up to 10000.",
        effort=0.5,
    )
    law_holds(
        GRADIENTS,
        "M10.1",
        piece_cases(layers=(_layer,), activations=(_activation,)),
        _layer,
        name=f"backward_of_{_label}_equals_the_reference",
        effort=0.25,
    )
law_holds(ROW_ALONE, "M10.11", piece_cases(layers=ROWS), *ROWS, name="a_row_of_a_layer_alone", effort=0.3)
law_is_exempt(ROW_ALONE, "cross_entropy", reason="it is a mean over all rows")
law_holds(MEMORY_LAYOUT, "M10.11", piece_cases(), *OWN, name="layers_of_any_memory_layout", effort=0.3)
law_holds(SIDE_EFFECTS_IN_TRAINING, "M10.13", piece_cases(), *OWN, name="a_layer_leaves_no_trace", effort=0.3)


@verifies("M10.11")
def layers_of_worked_examples(impl: JudgedImplementation) -> None:
    """(1, 2) by the rows (3, 4) and (5, 6): 11 and 17. Softmax of (0, ln 3): 1/4 and 3/4; its loss: ln 4."""
    dtype = float_dtype(impl.dtypes[0])
    note_case("x=(1, 2) W=((3, 4), (5, 6)) b=(0, 0)", "worked by hand")
    tolerance = 16 * EPSILON[impl.dtypes[0]]
    case = PieceCase(dtype=impl.dtypes[0], D=2, F=2)
    linear = impl.build("linear", case.config)
    linear.load({"weight": np.array([[3, 4], [5, 6]], dtype), "bias": np.zeros(2, dtype)})
    seen = linear(x=np.array([[[1, 2]]], dtype))["output"]
    expect_near(seen, np.array([[[11.0, 17.0]]]), 17 * tolerance, "output of linear")
    logits = np.array([[[0.0, np.log(3.0)]]], dtype)
    weights = impl.build("softmax", case.config)(x=logits)["output"]
    expect_near(weights, np.array([[[0.25, 0.75]]]), tolerance, "output of softmax")
    loss = impl.build("cross_entropy", case.config)(logits=logits, labels=np.zeros((1, 1), np.int64))["loss"]
    expect_near(loss, np.asarray(np.log(4.0)), 2 * tolerance, "loss of cross_entropy")


@verifies("M10.12", effort=0.5)
@given(case=piece_cases(layers=("linear",), min_width=2), width=st.sampled_from((-1, 0, 1)))
def linear_refuses_another_width(impl: JudgedImplementation, case: PieceCase, width: int) -> None:
    """One feature fewer, a single one, which would broadcast, and one more."""
    component = case.loaded(impl)
    x = np.ones((case.B, case.T, 1 if width == 0 else case.D + width), float_dtype(case.dtype))
    expect_refused(lambda: component.component(x=x), f"x of shape {x.shape} with d_model={case.D}")


@verifies("M10.12", effort=0.5)
@given(case=piece_cases(layers=("cross_entropy",)), wrong=st.sampled_from(WRONG))
def cross_entropy_refuses_labels_that_do_not_fit(
    impl: JudgedImplementation, case: PieceCase, wrong: str
) -> None:
    """An id beyond the classes, a negative one, which would count from the end, another shape."""
    component, labels = case.loaded(impl), case.inputs["labels"].copy()
    if wrong in ("high", "negative"):
        labels[0, 0] = case.V if wrong == "high" else -1
    else:
        grown = (1, 0) if wrong == "row" else (0, 1)
        labels = np.pad(labels, ((0, grown[0]), (0, grown[1])))
    inputs = case.with_inputs(labels=labels)
    expect_refused(lambda: component.component(**inputs), f"labels {labels.tolist()} for {case.V} classes")
