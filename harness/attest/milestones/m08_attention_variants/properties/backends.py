"""M8: every backend that is declared agrees with the formula."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect_close
from attest.judging.cases import OperationCase
from attest.judging.property import given, verifies
from attest.milestones.m01_attention.cases.attention import AttentionCase, attention_cases
from attest.milestones.m08_attention_variants.cases.heads import HeadsCase, heads_cases
from attest.outcomes import Expected, NotClaimed


def backends_of(impl: JudgedImplementation, case: OperationCase) -> Iterator[tuple[str, JudgedComponent]]:
    """The case's component on each declared backend; NotClaimed where none is declared."""
    if not impl.claims.backends:
        raise NotClaimed("no backends are declared")
    for backend in impl.backends:
        with impl.on(backend):
            yield backend, case.loaded(impl)


def expect_each(impl: JudgedImplementation, case: OperationCase) -> None:
    """Each within the bound of the formula, and within twice the bound of the first."""
    first = None
    for backend, component in backends_of(impl, case):
        seen = component(**case.inputs)["output"]
        what, factor = f"output on the backend {backend}", component.widening
        expect_close(seen, case.output, what, factor=factor)
        first = seen.astype(np.float64) if first is None else first
        expect_close(seen, Expected(first, case.output.bound), f"{what} beside the first", factor=2 * factor)


@verifies("M8.14")
@given(case=st.one_of(heads_cases(), heads_cases(masks=("keys", "pairs"), causal=True)))
def every_backend_of_self_attention(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Masks, options and positions give the same on each backend."""
    expect_each(impl, case)


@verifies("M8.14")
@given(case=attention_cases(causal=True))
def every_backend_of_causal_attention(impl: JudgedImplementation, case: AttentionCase) -> None:
    """The triangle of fewer queries than keys ends at the last key on each, one query alone included."""
    if impl.offers("attention"):
        expect_each(impl, case)


@verifies("M8.14", effort=0.5)
@given(case=heads_cases(window=("2", "1", "T-1")))
def every_backend_of_a_window(impl: JudgedImplementation, case: HeadsCase) -> None:
    """The same number of keys is seen on each."""
    expect_each(impl, case)
