"""M3: the feed-forward network, and what holds for every operation of the milestone."""

from __future__ import annotations

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_finite, expect_shape
from attest.contract.parameters import shapes
from attest.judging.cases import seeds
from attest.judging.laws import (
    ANY_LENGTH,
    DTYPE,
    FORMULA,
    GRADIENTS,
    MEMORY_LAYOUT,
    RANKS,
    REFUSALS,
    ROW_ALONE,
    SIDE_EFFECTS_IN_TRAINING,
    STATE,
    declare_law,
    law_holds,
    laws_hold,
)
from attest.judging.property import given, verifies
from attest.milestones.m03_feed_forward_and_embeddings.cases.embedding import (
    position_cases,
    token_cases,
)
from attest.milestones.m03_feed_forward_and_embeddings.cases.feed_forward import (
    FeedForwardCase,
    feed_forward_cases,
)
from attest.outcomes import Expected

law_holds(
    FORMULA,
    "M3.1",
    feed_forward_cases(),
    "feed_forward",
    name="feed_forward_equals_its_formula",
    sentence="W2 act(W1 x + b1) + b2 in every regime, with each activation that is offered.",
)


@verifies("M3.1", effort=0.5)
@given(case=feed_forward_cases())
def inner_width_is_the_one_asked_for(impl: JudgedImplementation, case: FeedForwardCase) -> None:
    """The parameters have the names and shapes of d_ff, or of 4 D where it is None."""
    found = case.unloaded(impl).parameters()
    for name, shape in shapes("feed_forward", case.config).items():
        expect(name in found, f"{name} is not among the parameters")
        expect_shape(found[name], shape, name)


@verifies("M3.2")
@given(case=feed_forward_cases(), place=seeds())
def positions_do_not_meet(impl: JudgedImplementation, case: FeedForwardCase, place: int) -> None:
    """Changing one position of one sentence leaves every other output as it was."""
    component = case.loaded(impl)
    b, t = divmod(place % (case.B * case.T), case.T)
    before, seen = (component(x=x)["output"] for x in (case.x, case.changed_at(b, t)))
    for output in (before, seen):
        expect_shape(output, case.x.shape, "output")
        expect_finite(output, "output")
    others = np.ones(case.x.shape[:2], bool)
    others[b, t] = False
    bound = np.broadcast_to(2 * case.output.bound, (case.B, case.T, 1))[others]
    expect_close(
        seen[others],
        Expected(before[others].astype(np.float64), bound),
        f"output away from position {t} of row {b}",
    )


@verifies("M3.2")
@given(case=feed_forward_cases(min_length=2), order=seeds())
def positions_are_treated_alike(impl: JudgedImplementation, case: FeedForwardCase, order: int) -> None:
    """Permuting positions permutes the output, and equal vectors give equal outputs."""
    component = case.loaded(impl)
    moved = np.random.default_rng(order).permutation(case.T)
    seen = component(x=case.x)["output"]
    expect_shape(seen, case.x.shape, "output")
    expect_finite(seen, "output")
    bound = np.broadcast_to(2 * case.output.bound, (case.B, case.T, 1))
    wanted = Expected(seen[:, moved].astype(np.float64), bound[:, moved])
    expect_close(component(x=case.x[:, moved])["output"], wanted, "output after a permutation of positions")
    alike = np.broadcast_to(seen[:1, :1].astype(np.float64), seen.shape)
    expect_close(
        component(x=case.repeated())["output"], Expected(alike, bound[:1, :1]), "output of a repeated vector"
    )


LOOKUPS = ("token_embedding", "input_embedding")
EVERYWHERE = {MEMORY_LAYOUT: "M3.11", REFUSALS: "M3.12", RANKS: "M3.12a", STATE: "M3.10a"}

law_holds(
    GRADIENTS,
    "M3.10",
    feed_forward_cases(),
    "feed_forward",
    name="gradients_of_the_network_are_right",
    sentence="Of x and of both maps, with random cotangents.",
)
law_holds(
    GRADIENTS,
    "M3.10",
    token_cases(lookups=LOOKUPS),
    *LOOKUPS,
    name="gradients_of_the_table_are_right",
    sentence="The factor sqrt(D) belongs to the gradient as well.",
    effort=0.7,
    needed=False,
)
law_holds(
    GRADIENTS,
    "M3.10",
    position_cases(longest=12),
    "positional_encoding",
    name="gradients_pass_positions_unchanged",
    sentence="What is added is a constant.",
    effort=0.3,
    needed=False,
)
law_holds(
    SIDE_EFFECTS_IN_TRAINING,
    "M3.10a",
    feed_forward_cases(),
    "feed_forward",
    name="the_network_leaves_no_trace",
    effort=0.4,
    needed=False,
)
law_holds(
    SIDE_EFFECTS_IN_TRAINING,
    "M3.10a",
    token_cases(lookups=LOOKUPS),
    *LOOKUPS,
    name="lookups_leave_no_trace",
    sentence="Nothing is added to the table or to the ids in place.",
    effort=0.6,
    needed=False,
)
law_holds(
    SIDE_EFFECTS_IN_TRAINING,
    "M3.10a",
    position_cases(longest=12),
    "positional_encoding",
    name="adding_positions_leaves_no_trace",
    sentence="Positions are not added in place, and the table is not given away.",
    effort=0.4,
    needed=False,
)
declare_law(FORMULA, "M3.3", "token_embedding")  # to the bit
declare_law(FORMULA, "M3.4", "positional_encoding")  # within the distance of the spec's table
laws_hold(
    {ANY_LENGTH: "M3.1", DTYPE: "M3.1", ROW_ALONE: "M3.2"} | EVERYWHERE, feed_forward_cases(), "feed_forward"
)
laws_hold(
    {ANY_LENGTH: "M3.3", DTYPE: "M3.3", ROW_ALONE: "M3.3"} | EVERYWHERE, token_cases(), "token_embedding"
)
laws_hold(
    {ANY_LENGTH: "M3.6", DTYPE: "M3.6", ROW_ALONE: "M3.6"} | EVERYWHERE,
    token_cases(lookups=("input_embedding",)),
    "input_embedding",
)
laws_hold(
    {ANY_LENGTH: "M3.5", DTYPE: "M3.5", ROW_ALONE: "M3.5"} | EVERYWHERE,
    position_cases(longest=40),
    "positional_encoding",
)
