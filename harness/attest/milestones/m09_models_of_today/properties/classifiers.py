"""M9: one answer for a whole sequence."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_same_bits
from attest.judging.laws import FORMULA, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.encoders import ClassifierCase, classifier_cases
from attest.milestones.m09_models_of_today.properties.encoders import expect_padding_inert
from attest.milestones.m09_models_of_today.properties.model_laws import Criteria, model_laws_hold
from attest.outcomes import Expected

POOLINGS = ("pooling:mean", "pooling:first", "pooling:last")

model_laws_hold(
    "classifier",
    classifier_cases(),
    Criteria(formula="M9.13", rows="M9.13", gradients="M9.17b", refusals="M9.18b", calls="M9.19b"),
    sentence="The logits of every row, with every claimed option and padding on either side or both.",
    needed=False,  # what M9.17b to M9.19b need is the masked language model
)
law_holds(
    FORMULA,
    "M9.13",
    classifier_cases(wants=POOLINGS, paddings=("both", "left", "right")),
    "classifier",
    name="each_pooling_reads_real_tokens",
    sentence="The mean of the real tokens, the first of them, the last: each that is claimed, with padding.",
)


@verifies("M9.13", effort=0.5)
@given(case=classifier_cases(paddings=("right", "left", "both")))
def a_row_without_its_padding_is_the_same_class(impl: JudgedImplementation, case: ClassifierCase) -> None:
    """Each row alone and without its padding gets the logits that it gets in the batch."""
    model = case.loaded(impl)
    seen = model(**case.inputs)["logits"].astype(np.float64)
    for row in range(case.B):
        wanted = Expected(seen[row : row + 1], case.output.bound[row : row + 1])
        short = model(**case.row(row))["logits"][:1]
        expect_close(short, wanted, f"logits of row {row} without its padding", factor=2 * model.widening)


@verifies("M9.13", effort=0.5)
@given(case=classifier_cases(), before=st.integers(0, 2), behind=st.integers(0, 3))
def more_padding_leaves_the_classes(
    impl: JudgedImplementation, case: ClassifierCase, before: int, behind: int
) -> None:
    """Columns of padding, on the sides where it is taken, leave the logits."""
    expect_padding_inert(impl, case, before, behind)


@verifies("M9.13", effort=0.25)
@given(case=classifier_cases(paddings=("right", "left", "both")))
def the_vector_of_padding_moves_no_class(impl: JudgedImplementation, case: ClassifierCase) -> None:
    """With another vector for padding in the embedding, every row gets the same bits."""
    before = case.loaded(impl)(**case.inputs)["logits"]
    after = case.loaded(impl, case.with_other_padding())(**case.inputs)["logits"]
    expect_same_bits(after, before, "logits with another vector for padding")
