"""M7: ALiBi, a bias of minus the distance."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_near
from attest.evidence import note_case
from attest.judging.named import ONCE, named
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.checks import slopes_of
from attest.reference.oracle import EPSILON


@verifies("M7.8")
@given(heads=st.integers(1, 32))
def slopes_are_those_of_the_paper(impl: JudgedImplementation, heads: int) -> None:
    """Powers of two for a power of two of heads, and every other one of twice as many in between."""
    seen = impl.call("alibi_slopes", heads)
    wanted = slopes_of(heads)
    # The ratio of two slopes is rounded once, and its power multiplies that error; a logarithm and a power
    # of their own take some roundings more.
    eps = EPSILON["float64" if seen.dtype == np.float64 else "float32"]
    expect_near(seen, wanted, 0.0, f"alibi_slopes of {heads} heads", relative=(8 + heads) * eps)


@verifies("M7.8", effort=ONCE)
def slopes_of_each_number_of_heads_up_to_32(impl: JudgedImplementation) -> None:
    """None is left to the draw: a rule may be wrong for a single number of heads."""
    note_case("1 to 32 heads", "every number of heads")
    for heads in range(1, 33):
        slopes_are_those_of_the_paper(impl, heads)


@verifies("M7.8", effort=ONCE)
@given(heads=named(40, 96, 112))
def slopes_of_many_heads_are_those_of_the_paper(impl: JudgedImplementation, heads: int) -> None:
    """As large models have: beyond 32 and 64, and no power of two."""
    slopes_are_those_of_the_paper(impl, heads)
