"""M3: the feed-forward network, and what holds for every operation of the milestone."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_finite, expect_gradients, expect_shape
from attest.checks.side_effects import expect_no_side_effects
from attest.contract import Array
from attest.contract.parameters import shapes
from attest.judging.cases import seeds
from attest.judging.options import sharpest
from attest.judging.property import given, verifies
from attest.milestones.m03_feed_forward_and_embeddings.cases.embedding import (
    PositionCase,
    TokenCase,
    position_cases,
    token_cases,
)
from attest.milestones.m03_feed_forward_and_embeddings.cases.feed_forward import (
    FeedForwardCase,
    feed_forward_cases,
)
from attest.outcomes import Expected
from attest.reference.oracle import bounded_gradients


def feed_forward(impl: JudgedImplementation, case: FeedForwardCase) -> JudgedComponent:
    """The component of a case with its weights."""
    component = impl.build("feed_forward", case.config)
    component.load(case.parameters)
    return component


@verifies("M3.1")
@given(case=feed_forward_cases())
def feed_forward_equals_its_formula(impl: JudgedImplementation, case: FeedForwardCase) -> None:
    """W2 act(W1 x + b1) + b2 in every regime, with each activation that is offered."""
    seen = feed_forward(impl, case)(x=case.x)["output"]
    expect_close(seen, case.expected, "output", factor=impl.factor("feed_forward"))


@verifies("M3.1", effort=0.5)
@given(case=feed_forward_cases())
def inner_width_is_the_one_asked_for(impl: JudgedImplementation, case: FeedForwardCase) -> None:
    """Names and shapes of the parameters, d_ff given and left out."""
    config = impl.placed(case.config)
    new = JudgedComponent("feed_forward", impl.construct("feed_forward", config), config, impl)
    found = new.parameters()
    for name, shape in shapes("feed_forward", case.config).items():
        expect(name in found, f"{name} is not among the parameters")
        expect_shape(found[name], shape, name)


@verifies("M3.2")
@given(case=feed_forward_cases(), place=seeds())
def positions_do_not_meet(impl: JudgedImplementation, case: FeedForwardCase, place: int) -> None:
    """Changing one position of one sentence leaves every other output as it was."""
    component = feed_forward(impl, case)
    b, t = divmod(place % (case.B * case.T), case.T)
    before, seen = (component(x=x)["output"] for x in (case.x, case.changed_at(b, t)))
    for output in (before, seen):
        expect_shape(output, case.x.shape, "output")
        expect_finite(output, "output")
    others = np.ones(case.x.shape[:2], bool)
    others[b, t] = False
    bound = np.broadcast_to(2 * case.expected.bound, (case.B, case.T, 1))[others]
    expect_close(
        seen[others],
        Expected(before[others].astype(np.float64), bound),
        f"output away from position {t} of row {b}",
    )


@verifies("M3.2")
@given(case=feed_forward_cases(min_length=2), order=seeds())
def positions_are_treated_alike(impl: JudgedImplementation, case: FeedForwardCase, order: int) -> None:
    """A permutation passes through, and the same vector gives the same output wherever it stands."""
    component = feed_forward(impl, case)
    moved = np.random.default_rng(order).permutation(case.T)
    seen = component(x=case.x)["output"]
    expect_shape(seen, case.x.shape, "output")
    expect_finite(seen, "output")
    bound = np.broadcast_to(2 * case.expected.bound, (case.B, case.T, 1))
    wanted = Expected(seen[:, moved].astype(np.float64), bound[:, moved])
    expect_close(component(x=case.x[:, moved])["output"], wanted, "output after a permutation of positions")
    alike = np.broadcast_to(seen[:1, :1].astype(np.float64), seen.shape)
    expect_close(
        component(x=case.repeated())["output"], Expected(alike, bound[:1, :1]), "output of a repeated vector"
    )


@verifies("M3.10")
@given(case=feed_forward_cases())
def gradients_of_the_network_are_right(impl: JudgedImplementation, case: FeedForwardCase) -> None:
    """Of x and of both maps, with random cotangents."""
    case = sharpest(impl, case)
    seen = feed_forward(impl, case).gradients({"x": case.x}, case.cotangents())
    inputs = {"x": case.x}
    expect_gradients(
        seen, bounded_gradients("feed_forward", case.config, case.parameters, inputs, case.cotangents())
    )


@verifies("M3.10", effort=0.7)
@given(case=token_cases(), operation=st.sampled_from(("token_embedding", "input_embedding")))
def gradients_of_the_table_are_right(impl: JudgedImplementation, case: TokenCase, operation: str) -> None:
    """The factor sqrt(D) belongs to the gradient as well."""
    if not impl.offers(operation):
        return
    case = sharpest(impl, case)
    table, ids = {"weight": case.table}, {"ids": case.ids}
    component = impl.build(operation, case.config)
    component.load(table)
    seen = component.gradients(ids, case.cotangents())
    expect_gradients(seen, bounded_gradients(operation, case.config, table, ids, case.cotangents()))


@verifies("M3.10", effort=0.3)
@given(case=position_cases(longest=12))
def gradients_pass_positions_unchanged(impl: JudgedImplementation, case: PositionCase) -> None:
    """What is added is a constant."""
    if not impl.offers("positional_encoding"):
        return
    case = sharpest(impl, case)
    seen = impl.build("positional_encoding", case.config).gradients({"x": case.x}, case.cotangents())
    wanted = bounded_gradients("positional_encoding", case.config, {}, {"x": case.x}, case.cotangents())
    expect_gradients(seen, wanted)


MilestoneCase = FeedForwardCase | TokenCase | PositionCase


def prepared(
    impl: JudgedImplementation, operation: str, case: MilestoneCase
) -> tuple[JudgedComponent, dict[str, Array]]:
    """The component with its weights, and its inputs."""
    component = impl.build(operation, case.config)
    if isinstance(case, FeedForwardCase):
        component.load(case.parameters)
    if isinstance(case, TokenCase):
        component.load({"weight": case.table})
        return component, {"ids": case.ids}
    return component, {"x": case.x}


def leaves_no_trace(impl: JudgedImplementation, operation: str, case: MilestoneCase) -> None:
    """In eval and in train mode."""
    if not impl.offers(operation):
        return
    component, inputs = prepared(impl, operation, case)
    expect_no_side_effects(component, inputs)
    if hasattr(component.component, "train"):
        expect_no_side_effects(component, inputs, train_seed=case.seed)
        component.eval()


@verifies("M3.10a", effort=0.4)
@given(case=feed_forward_cases())
def the_network_leaves_no_trace(impl: JudgedImplementation, case: FeedForwardCase) -> None:
    """Inputs, memory, random state and flags are as before."""
    leaves_no_trace(impl, "feed_forward", case)


@verifies("M3.10a", effort=0.6)
@given(case=token_cases(), operation=st.sampled_from(("token_embedding", "input_embedding")))
def lookups_leave_no_trace(impl: JudgedImplementation, case: TokenCase, operation: str) -> None:
    """Nothing is added to the table or to the ids in place."""
    leaves_no_trace(impl, operation, case)


@verifies("M3.10a", effort=0.4)
@given(case=position_cases(longest=12))
def adding_positions_leaves_no_trace(impl: JudgedImplementation, case: PositionCase) -> None:
    """Positions are not added in place, and the table is not given away."""
    leaves_no_trace(impl, "positional_encoding", case)
