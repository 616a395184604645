"""M9: masked language models and the encoder inside them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close
from attest.contract import Array
from attest.judging.laws import FORMULA, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.encoders import BERT, TIED, EncoderCase, encoder_cases
from attest.milestones.m09_models_of_today.properties.blocks import ROOM
from attest.milestones.m09_models_of_today.properties.model_laws import Criteria, model_laws_hold
from attest.outcomes import Expected

model_laws_hold(
    "masked_language_model",
    encoder_cases(),
    Criteria(formula="M9.10", rows="M9.10", gradients="M9.17b", refusals="M9.18b", calls="M9.19b"),
    sentence="The logits at every real token, with every claimed option and padding on either side or both.",
)
law_holds(
    FORMULA,
    "M9.10",
    encoder_cases(wants=(BERT, TIED)),
    "masked_language_model",
    name="tied_models_equal_their_formula",
    sentence="In the manner of BERT: learned positions, segments, GELU; and with a scaled lookup.",
    effort=0.5,
)


@verifies("M9.10", effort=0.25)
@given(case=encoder_cases(min_length=2))
def every_token_sees_every_token(impl: JudgedImplementation, case: EncoderCase) -> None:
    """Another token moves the logits of its whole row, before and behind, as far as it moves the formula."""
    model = case.loaded(impl)
    before = model(**case.inputs)["logits"]
    for row, place in case.places():
        changed = case.with_inputs(ids=case.with_another(row, place))
        moved = (model(**changed)["logits"] != before).any(-1)
        should = np.abs(case.output_for(changed).value - case.output.value) > ROOM * case.output.bound
        blind = should.any(-1) & case.real & ~moved
        expect(not blind.any(), f"logits{first(blind)} do not change when ids[{row}, {place}] changes")
        leak = np.delete(moved & case.real, row, axis=0)
        expect(not leak.any(), f"another row changes when ids[{row}, {place}] changes")


def first(where: Array) -> list[int]:
    """The first place that is True; none where nothing is."""
    return [int(i) for place in np.argwhere(where)[:1] for i in place]


@verifies("M9.10", effort=0.5)
@given(case=encoder_cases(paddings=("right", "left", "both")))
def a_row_without_its_padding_says_the_same(impl: JudgedImplementation, case: EncoderCase) -> None:
    """Each row alone and without its padding gives the logits that it gives in the batch."""
    model = case.loaded(impl)
    seen = model(**case.inputs)["logits"].astype(np.float64)
    for row, real in enumerate(case.real):
        wanted = Expected(seen[row, real][None], case.output.bound[row, real][None])
        short = model(**case.row(row))["logits"][:1]
        expect_close(short, wanted, f"logits of row {row} without its padding", factor=2 * model.widening)


@verifies("M9.10", effort=0.5)
@given(case=encoder_cases(), before=st.integers(0, 2), behind=st.integers(0, 3))
def more_padding_leaves_the_logits(
    impl: JudgedImplementation, case: EncoderCase, before: int, behind: int
) -> None:
    """Columns of padding, on the sides where it is taken, leave the logits of what is no padding."""
    expect_padding_inert(impl, case, before, behind)


def expect_padding_inert(impl: JudgedImplementation, case: EncoderCase, before: int, behind: int) -> None:
    """The logits with more columns of padding are those without."""
    before = before if "left" in impl.claims.padding else 0
    behind = behind if "right" in impl.claims.padding else 0
    case = case.but(room=case.room + before + behind)
    model = case.loaded(impl)
    seen = case.own_logits(model(**case.with_padding(before, behind))["logits"], before)
    seen = case.specified(seen, case.output.value.astype(seen.dtype))
    what = f"logits with {before} columns of padding before and {behind} behind"
    expect_close(seen, case.output, what, factor=2 * model.widening)


@verifies("M9.10", effort=0.25)
@given(case=encoder_cases(wants=("tie:false",), paddings=("right", "left", "both")))
def what_stands_for_padding_does_not_matter(impl: JudgedImplementation, case: EncoderCase) -> None:
    """With another vector for padding in the embedding, tokens get the same bits."""
    before = case.loaded(impl)(**case.inputs)["logits"]
    after = case.loaded(impl, case.with_other_padding())(**case.inputs)["logits"]
    moved = case.real & (before != after).any(-1)
    expect(not moved.any(), f"logits{first(moved)} changed with the vector of padding")
