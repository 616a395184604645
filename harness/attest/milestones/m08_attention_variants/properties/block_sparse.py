"""M8: attention between chosen blocks."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_refused, expect_same_bits, expect_zero
from attest.contract import Config
from attest.judging.laws import FORMULA, GRADIENTS, REFUSALS, SIDE_EFFECTS, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m08_attention_variants.cases.block_sparse import BlockCase, block_cases
from attest.outcomes import Expected
from attest.reference.oracle import expected

NAME = "block_sparse_attention"

law_holds(
    FORMULA,
    "M8.11",
    block_cases(),
    NAME,
    name="block_sparse_attention_equals_its_formula",
    sentence="Local, strided, global and random blocks, whole and short, for each head or for all.",
)
law_holds(GRADIENTS, "M8.16", block_cases(), NAME, name="gradients_of_block_sparse_attention", effort=0.5)
law_holds(REFUSALS, "M8.17", block_cases(), NAME, name="block_sparse_attention_refuses", effort=0.3)
law_holds(SIDE_EFFECTS, "M8.18", block_cases(), NAME, name="block_sparse_leaves_no_trace", effort=0.3)


@verifies("M8.11")
@given(case=block_cases())
def blocks_equal_their_dense_mask(impl: JudgedImplementation, case: BlockCase) -> None:
    """Each block written out position by position as a mask of dense attention."""
    dense = {name: case.inputs[name] for name in "qkv"} | {"mask": case.visible}
    wanted = expected("attention", Config(dtype=case.dtype), {}, dense)["output"]
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    expect_close(seen, wanted, "output", factor=component.widening)
    expect_zero(seen[~case.visible.any(-1)], "output of a query that sees no block")


@verifies("M8.11")
@given(case=block_cases(patterns=("local", "strided", "random")), junk=st.sampled_from((3.0, 1e4)))
def blocks_that_nobody_sees_are_inert(impl: JudgedImplementation, case: BlockCase, junk: float) -> None:
    """Junk in the keys and values that no query of a row and head sees changes no bit."""
    component, unseen = case.loaded(impl), ~case.visible.any(-2)
    k, v = (case.inputs[name].copy() for name in "kv")
    k[unseen], v[unseen] = case.in_range(junk), -case.in_range(junk)
    before = component(**case.inputs)["output"]
    after = component(**case.with_inputs(k=k, v=v))["output"]
    expect_same_bits(after, before, "output with junk in blocks that nobody sees")


@verifies("M8.11", effort=0.5)
@given(case=block_cases(patterns=("all",), causal=False))
def all_blocks_are_full_attention(impl: JudgedImplementation, case: BlockCase) -> None:
    """With every block visible the size of a block does not matter."""
    component = case.loaded(impl)
    before = component(**case.inputs)["output"].astype(np.float64)
    other = case if case.fixed else case.but(block=case.block + 1)
    seen = other.loaded(impl)(**other.inputs)["output"]
    wanted = Expected(before, case.output.bound)
    expect_close(seen, wanted, f"output in blocks of {other.block}", factor=2 * component.widening)


@verifies("M8.18", effort=0.5)
@given(case=block_cases(patterns=("random", "local")))
def blocks_do_not_outlive_their_call(impl: JudgedImplementation, case: BlockCase) -> None:
    """A second call with other blocks of the same shape is answered by its own."""
    component = case.loaded(impl)
    component(**case.inputs)
    others = case.with_inputs(blocks=~case.blocks)
    seen = component(**others)["output"]
    expect_close(seen, case.output_for(others), "output for other blocks", factor=component.widening)


@verifies("M8.17", effort=0.5)
@given(case=block_cases(), block=st.sampled_from((0, -1, 2.0, "2")))
def a_block_that_is_no_size_is_refused(impl: JudgedImplementation, case: BlockCase, block: object) -> None:
    """On construction or by the first call."""
    config = case.config.but(block=block)
    expect_refused(lambda: impl.raw_build(NAME, config)(**case.inputs), f"block={block!r}")


@verifies("M8.17", effort=0.5)
@given(case=block_cases(), wrong=st.sampled_from(("row", "key", "head", "flat")))
def blocks_of_another_shape_are_refused(impl: JudgedImplementation, case: BlockCase, wrong: str) -> None:
    """A row or a column of blocks too many, another number of heads, no head axis."""
    blocks = case.blocks
    made = {
        "row": np.concatenate([blocks, blocks[:, :1]], axis=1),
        "key": np.concatenate([blocks, blocks[..., :1]], axis=2),
        "head": np.concatenate([np.broadcast_to(blocks, (case.H, *blocks.shape[1:])), blocks[:1]]),
        "flat": blocks[0],
    }
    component, inputs = case.loaded(impl), case.with_inputs(blocks=made[wrong])
    what = f"blocks of shape {made[wrong].shape} for {case.H} heads, {case.T} queries and {case.S} keys"
    expect_refused(lambda: component.component(**inputs), f"{what} in blocks of {case.block}")
