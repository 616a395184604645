"""M7: the buckets of distances and the bias that is learned for each."""

from __future__ import annotations

from attest.boundary import JudgedImplementation
from attest.judging.laws import FORMULA, GRADIENTS, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m07_positions.cases.relative import BucketCase, bias_cases, bucket_cases
from attest.milestones.m07_positions.checks import expect_buckets
from attest.reference.parts.relative_positions import relative_buckets

law_holds(
    FORMULA,
    "M7.11",
    bias_cases(),
    "relative_bias",
    name="relative_bias_equals_its_formula",
    sentence="For each head the number of the bucket of key minus query position.",
)
law_holds(
    GRADIENTS,
    "M7.11",
    bias_cases(),
    "relative_bias",
    name="a_bucket_learns_from_all_its_uses",
    sentence="The gradient of a number of the table is the sum over the places that use it.",
)


@verifies("M7.10")
@given(case=bucket_cases())
def buckets_are_those_of_exact_integers(impl: JudgedImplementation, case: BucketCase) -> None:
    """Every offset from -300 to 300 has the bucket that integer arithmetic gives."""
    wanted = relative_buckets(case.offsets, case.buckets, case.distance, causal=case.causal)
    seen = impl.call("relative_buckets", case.offsets, case.buckets, case.distance, case.causal)
    expect_buckets(seen, wanted, case.offsets)
