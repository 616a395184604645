"""M7: rotary positions by themselves."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect_close, expect_near, expect_same_bits, expect_shape
from attest.contract import Array, float_dtype
from attest.evidence import note_case
from attest.judging.laws import FORMULA, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.rotary import RotaryCase, interleaving, rotary_cases
from attest.outcomes import Expected
from attest.reference.oracle import EPSILON

law_holds(
    FORMULA,
    "M7.2",
    rotary_cases(),
    "rotary",
    name="rotary_equals_its_formula",
    sentence="Pairs turned by position times base^(-2i/r), in both pairings, at near and far positions.",
)


@verifies("M7.2")
def pair_0_turns_by_one_radian(impl: JudgedImplementation) -> None:
    """Worked by hand: at position 1 the first pair (1, 0) becomes (cos 1, sin 1), whatever the base."""
    case = RotaryCase(dtype=impl.dtypes[0], T=1, d=2).fitted(impl)
    x = np.array([[[[1, 0]]]], float_dtype(case.dtype))
    note_case("x=(1, 0) at position 1", "worked by hand")
    seen = impl.build("rotary", case.config)(x=np.repeat(x, case.B, 0), positions=np.ones((case.B, 1), int))
    wanted = np.broadcast_to([np.cos(1), np.sin(1)], seen["output"].shape)
    expect_near(seen["output"], wanted, 16 * EPSILON[case.dtype], "output")  # numbers below 1


@verifies("M7.3", effort=0.5)
@given(case=rotary_cases())
def position_0_is_the_identity(impl: JudgedImplementation, case: RotaryCase) -> None:
    """At position 0 nothing is turned."""
    component, inputs = case.loaded(impl), case.at_positions(case.zero)
    bound = case.output_for(inputs).bound
    seen = component(**inputs)["output"]
    expect_close(seen, Expected(case.x.astype(np.float64), bound), "output at position 0",
                 factor=component.widening)  # fmt: skip


@verifies("M7.3")
@given(case=rotary_cases())
def every_pair_keeps_its_length(impl: JudgedImplementation, case: RotaryCase) -> None:
    """A rotation changes the direction of a pair and not its length."""
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    expect_shape(seen, case.x.shape, "output")
    wanted = Expected(case.lengths_of_pairs(case.x), 2 * case.output.bound)
    expect_close(case.lengths_of_pairs(seen), wanted, "the length of a pair", factor=component.widening)


@verifies("M7.3")
@given(case=rotary_cases())
def turns_add_up(impl: JudgedImplementation, case: RotaryCase) -> None:
    """Turned at p, and what comes out turned at q, is turned at p + q."""
    component, q = case.loaded(impl), case.other_positions
    first = component(**case.inputs)["output"]
    once, twice = case.at_positions(case.positions + q), case.at_positions(q, first)
    wanted = component(**once)["output"].astype(np.float64)
    # The error of the first turn is itself turned, which spreads it over the two features of a pair.
    bound = 2 * case.output.bound + case.output_for(once).bound + case.output_for(twice).bound
    seen = component(**twice)["output"]
    expect_close(seen, Expected(wanted, bound), "output turned twice", factor=component.widening)


@verifies("M7.3")
@given(case=rotary_cases(at=("mixed", "near", "block")), shift=st.sampled_from((1, 300, 9_999, 100_000)))
def products_depend_on_the_distance(impl: JudgedImplementation, case: RotaryCase, shift: int) -> None:
    """Queries and keys moved by the same number of positions have the same products."""
    case = case.sharpest(impl)
    component = case.loaded(impl)
    near, far = case.positions, case.positions + (shift if case.dtype == "float64" else min(shift, 300))
    (products, near_bound), (moved, far_bound) = (_products(component, case, at) for at in (near, far))
    wanted = Expected(products, near_bound + far_bound)
    expect_close(moved, wanted, f"products {shift} positions on", factor=component.widening)


def _products(component: JudgedComponent, case: RotaryCase, positions: Array) -> tuple[Array, Array]:
    """(B, H, T, T) of x and keys at these positions, and how far they may be off."""
    sides = [case.at_positions(positions, x) for x in (case.x, case.keys)]
    q, k = (component(**inputs)["output"].astype(np.float64) for inputs in sides)
    bounds = [np.broadcast_to(case.output_for(inputs).bound, q.shape) for inputs in sides]
    off = bounds[0] @ np.abs(k).swapaxes(-1, -2) + np.abs(q) @ bounds[1].swapaxes(-1, -2)
    return q @ k.swapaxes(-1, -2), off


@verifies("M7.4")
@given(case=rotary_cases())
def features_beyond_the_fraction_pass(impl: JudgedImplementation, case: RotaryCase) -> None:
    """What is not turned comes out to the bit."""
    seen = case.loaded(impl)(**case.inputs)["output"]
    expect_shape(seen, case.x.shape, "output")
    expect_same_bits(seen[..., case.rotated :], case.x[..., case.rotated :], "the features not turned")


@verifies("M7.5")
@given(case=rotary_cases(wants="rotary_pairing:interleaved"))
def one_pairing_is_the_other_permuted(impl: JudgedImplementation, case: RotaryCase) -> None:
    """Halves of permuted features are the permuted features of interleaved pairs."""
    order = np.concatenate([interleaving(case.rotated), np.arange(case.rotated, case.d)])
    halves, pairs = case.paired("halves"), case.at_positions(case.positions, case.x[..., order])
    wanted = halves.loaded(impl)(**case.inputs)["output"].astype(np.float64)
    expect_shape(wanted, case.x.shape, "output with halves")
    component = case.loaded(impl)
    bound = 2 * (halves.output.bound + case.output_for(pairs).bound)
    seen = component(**pairs)["output"]
    expect_close(seen, Expected(wanted[..., order], bound), "output of the permuted features",
                 factor=component.widening)  # fmt: skip
