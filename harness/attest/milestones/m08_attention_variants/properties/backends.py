"""M8: every backend that is declared agrees with the formula."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close
from attest.judging.cases import OperationCase
from attest.judging.property import given, verifies
from attest.milestones.m01_attention.cases.attention import AttentionCase, attention_cases
from attest.milestones.m08_attention_variants.cases.heads import HeadsCase, heads_cases
from attest.outcomes import Expected, NotClaimed


def expect_backend(impl: JudgedImplementation, case: OperationCase) -> None:
    """On the backend of the moment: within the bound of the formula, and twice that of the first backend."""
    if not impl.claims.backends:
        raise NotClaimed("no backends are declared")
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    expect_close(seen, case.output, "output", factor=component.widening)
    with impl.on(impl.backends[0]):
        first = case.loaded(impl)(**case.inputs)["output"].astype(np.float64)
    wanted = Expected(first, case.output.bound)
    what = f"output beside that of the backend {impl.backends[0]}"
    expect_close(seen, wanted, what, factor=2 * component.widening)


@verifies("M8.14")
@given(case=st.one_of(heads_cases(), heads_cases(masks=("keys", "pairs"), causal=True)))
def every_backend_of_self_attention(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Masks, options and positions give the same on each backend."""
    expect_backend(impl, case)


def one_query() -> st.SearchStrategy[AttentionCase]:
    """A step of a cache: the last key is that of the query."""
    return attention_cases(causal=True, min_keys=2).map(lambda case: case.but(T=1))


@verifies("M8.14")
@given(case=st.one_of(attention_cases(causal=True), one_query()))
def every_backend_of_causal_attention(impl: JudgedImplementation, case: AttentionCase) -> None:
    """The triangle of fewer queries than keys ends at the last key on each, one query alone included."""
    if impl.offers("attention"):
        expect_backend(impl, case)


@verifies("M8.14", effort=0.5)
@given(case=heads_cases(window=("2", "1", "T-1")))
def every_backend_of_a_window(impl: JudgedImplementation, case: HeadsCase) -> None:
    """The same number of keys is seen on each."""
    expect_backend(impl, case)
