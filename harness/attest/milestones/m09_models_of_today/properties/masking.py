"""M9: which tokens are hidden from a masked language model, and the loss over them."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_refused, expect_same_bits, expect_zero
from attest.checks.side_effects import undisturbed
from attest.checks.statistics import expect_share
from attest.evidence import note_case
from attest.judging.laws import FORMULA, GRADIENTS, ROW_ALONE, SIDE_EFFECTS, law_holds, law_is_exempt
from attest.judging.property import given, verifies
from attest.milestones.m09_models_of_today.cases.masking import (
    MANY,
    MaskedLossCase,
    MaskingCase,
    masked_loss_cases,
    masking_cases,
)

LONG = MaskingCase(B=MANY // 64, T=64, V=12, seed=15)
SHORT = MaskingCase(B=MANY // 8, T=4, V=40, specials=0, seed=80)
OTHER_RATE = MaskingCase(B=MANY // 64, T=64, V=12, rate=0.4, seed=10)


@verifies("M9.11")
@given(case=masking_cases())
def only_chosen_tokens_change(impl: JudgedImplementation, case: MaskingCase) -> None:
    """No special id and no mask is chosen; what is not chosen stays; the others become masks or ordinary."""
    masked, chosen = case.masked(impl)
    expect(not (chosen & ~case.eligible).any(), "a special id, or a mask, was chosen")
    expect_same_bits(masked[~chosen], case.ids[~chosen], "the ids that were not chosen")
    become = set(masked[chosen].tolist()) - {case.mask_id, *case.ordinary.tolist()}
    expect(not become, f"chosen tokens became the special ids {sorted(become)}")
    if case.rate in (0.0, 1.0):
        expect_same_bits(chosen, case.eligible & (case.rate == 1.0), f"what a rate of {case.rate} chooses")


@verifies("M9.11", effort=0.5)
@given(case=masking_cases(rates=(0.15, 0.5)))
def masking_is_a_function_of_ids_and_seed(impl: JudgedImplementation, case: MaskingCase) -> None:
    """The same ids and seed give the same tokens, whatever was called before; the caller's ids stay."""
    before, ids = case.ids.copy(), case.ids
    first = undisturbed("mask_tokens", lambda: case.masked(impl))
    case.masked(impl, seed=1)
    for seen, wanted, what in zip(case.masked(impl), first, ("the masked ids", "the chosen tokens")):
        expect_same_bits(seen, wanted, f"{what} of a second call")
    arguments = (ids, case.mask_id, case.V, case.special, case.seed)
    impl.implementation.mask_tokens(*arguments)
    expect_same_bits(ids, before, "the ids that were given")


@verifies("M9.11")
def a_share_of_the_tokens_is_chosen(impl: JudgedImplementation) -> None:
    """15 % of the ordinary tokens, or the rate that is given, at every place alike."""
    note_case(f"{LONG}; {OTHER_RATE}", "statistics")
    for case in (LONG, OTHER_RATE):
        _, chosen = case.masked(impl)
        expect_share(int(chosen.sum()), int(case.eligible.sum()), case.rate, "ordinary tokens chosen")
    _, chosen = LONG.masked(impl)
    for place in (0, 1, LONG.T - 2, LONG.T - 1):
        there = LONG.eligible[:, place]
        what = f"tokens chosen at place {place}"
        expect_share(int(chosen[:, place].sum()), int(there.sum()), LONG.rate, what)


@verifies("M9.11")
def tokens_are_chosen_each_by_itself(impl: JudgedImplementation) -> None:
    """Of short rows as many have no chosen token as chance leaves; two seeds choose apart."""
    note_case(str(SHORT), "statistics")
    whole = SHORT.eligible.all(axis=1)
    _, chosen = SHORT.masked(impl)
    _, other = SHORT.masked(impl, seed=1)
    none = int((~chosen[whole].any(axis=1)).sum())
    expect_share(none, int(whole.sum()), 0.85**SHORT.T, f"rows of {SHORT.T} tokens without a chosen one")
    both = int((chosen & other).sum())
    expect_share(both, int(SHORT.eligible.sum()), 0.15**2, "tokens that two seeds both choose")
    nearby = int((chosen[:-1, 0] & chosen[1:, 0]).sum())
    pairs = int((SHORT.eligible[:-1, 0] & SHORT.eligible[1:, 0]).sum())
    expect_share(nearby, pairs, 0.15**2, "neighbouring rows whose first tokens are both chosen")


@verifies("M9.11")
def chosen_tokens_meet_three_fates(impl: JudgedImplementation) -> None:
    """Eight tenths are hidden, one tenth is any ordinary id, one tenth stays."""
    note_case(str(LONG), "statistics")
    masked, chosen = LONG.masked(impl)
    new, old = masked[chosen], LONG.ids[chosen]
    kinds = len(LONG.ordinary)
    expect_share(int((new == LONG.mask_id).sum()), new.size, 0.8, "chosen tokens that are hidden")
    expect_share(int((new == old).sum()), new.size, 0.1 + 0.1 / kinds, "chosen tokens that stay")
    for id in LONG.ordinary:
        others = old != id
        what = f"chosen tokens that become id {id}"
        expect_share(int((new[others] == id).sum()), int(others.sum()), 0.1 / kinds, what)
    became = new != LONG.mask_id
    first, second = (np.searchsorted(LONG.ordinary, ids[became]) for ids in (old, new))
    for steps in range(1, kinds):
        there = int(((second - first) % kinds == steps).sum())
        what = f"chosen tokens that become the ordinary id {steps} behind them"
        expect_share(there, new.size, 0.1 / kinds, what)


@verifies("M9.11")
def masking_refuses_what_makes_no_sense(impl: JudgedImplementation) -> None:
    """A rate below 0 or above 1, and a mask or ids outside the vocabulary."""
    note_case("rates -0.1 and 1.5; mask_id 9 of 9; id 9 of 9", "refusals")
    mask, ids, special = impl.implementation.mask_tokens, np.array([[5, 6, 7]]), np.array([0, 1])
    for rate in (-0.1, 1.5):
        expect_refused(partial(mask, ids, 3, 9, special, 0, rate), f"a rate of {rate}")
    expect_refused(partial(mask, ids, 9, 9, special, 0), "a mask_id of 9 in a vocabulary of 9")
    expect_refused(partial(mask, ids + 2, 3, 9, special, 0), "an id of 9 in a vocabulary of 9")


law_holds(
    FORMULA,
    "M9.12",
    masked_loss_cases(),
    "masked_language_model_loss",
    name="masked_loss_equals_its_formula",
    sentence="The mean of -log softmax(logits)[id] over the chosen tokens, replaced or not.",
)
law_holds(
    GRADIENTS, "M9.12", masked_loss_cases(), "masked_language_model_loss", name="gradients_of_the_masked_loss"
)
law_holds(
    SIDE_EFFECTS,
    "M9.12",
    masked_loss_cases(),
    "masked_language_model_loss",
    name="the_masked_loss_leaves_no_trace",
    effort=0.25,
)
law_is_exempt(
    ROW_ALONE, "masked_language_model_loss", reason="it is a mean over all rows; M9.12 judges the split"
)


@verifies("M9.12", effort=0.5)
@given(case=masked_loss_cases(), junk=st.sampled_from((1e4, -1e4)))
def what_was_not_chosen_does_not_count(impl: JudgedImplementation, case: MaskedLossCase, junk: float) -> None:
    """Elsewhere other logits change no bit of the loss, and the gradient is exactly zero."""
    component, logits = case.loaded(impl), case.inputs["logits"]
    other = np.where(case.asked[..., None], logits, np.asarray(case.in_range(junk), logits.dtype))
    before = component(**case.inputs)["loss"]
    after = component(**case.with_inputs(logits=other))["loss"]
    expect_same_bits(after, before, "loss with other logits where nothing was chosen")
    found = component.gradients(case.inputs, case.cotangents()).inputs["logits"]
    expect_zero(found[~case.asked], "the gradient where nothing was chosen")


@verifies("M9.12", effort=0.5)
@given(case=masked_loss_cases(shares=(0.0,)))
def nothing_chosen_costs_nothing(impl: JudgedImplementation, case: MaskedLossCase) -> None:
    """Where nothing was chosen the loss is 0 and so is its gradient."""
    component = case.loaded(impl)
    expect_zero(component(**case.inputs)["loss"], "the loss where nothing was chosen")
    found = component.gradients(case.inputs, case.cotangents()).inputs["logits"]
    expect_zero(found, "its gradient")


@verifies("M9.12", effort=0.5)
@given(case=masked_loss_cases(shares=(0.5,), min_rows=2), cut=st.integers(1, 3))
def chosen_tokens_weigh_the_same(impl: JudgedImplementation, case: MaskedLossCase, cut: int) -> None:
    """The losses of parts of a batch, weighted by their chosen tokens, give the loss of the batch."""
    case = case if 2 * case.least <= case.B else case.but(B=2 * case.least)
    cut, total = min(max(cut, case.least), case.B - case.least), 0.0
    component = case.loaded(impl)
    for part in (slice(0, cut), slice(cut, None)):
        if tokens := int(case.asked[part].sum()):
            total += tokens * float(component(**case.rows(part))["loss"])
    whole = np.asarray(total / max(int(case.asked.sum()), 1))
    expect_close(whole, case.output, f"the weighted mean of rows up to {cut} and the rest", factor=2)
