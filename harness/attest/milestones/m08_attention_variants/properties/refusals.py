"""M8: configs that make no sense are refused."""

from __future__ import annotations

from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_refused
from attest.judging.property import given, verifies
from attest.milestones.m08_attention_variants.cases.chunked import ChunkedCase, chunked_cases


@verifies("M8.17", effort=0.5)
@given(case=chunked_cases(), chunk=st.sampled_from((0, -3, 2.0, "2")))
def a_chunk_that_is_no_size_is_refused(impl: JudgedImplementation, case: ChunkedCase, chunk: object) -> None:
    """On construction or by the first call, not taken for another size."""
    config = case.config.but(chunk=chunk)
    what = f"chunk={chunk!r}"
    expect_refused(lambda: impl.raw_build("chunked_attention", config)(**case.inputs), what)
