"""M2: multi-head attention, its heads, its output map and its agreement with torch."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_gradients,
    expect_near,
    expect_refused,
    expect_refused_by_name,
    expect_shape,
)
from attest.checks.side_effects import python_work
from attest.contract import Array
from attest.contract.parameters import shapes
from attest.evidence import note_case
from attest.judging.laws import FORMULA, GRADIENTS, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m01_attention.cases.attention import LONG
from attest.milestones.m01_attention.checks import (
    RATE,
    expect_mean_of_evaluation,
    expect_weights_before_dropout,
)
from attest.milestones.m02_multi_head.cases.multi_head import (
    OPERATION,
    MultiHeadCase,
    multi_head_cases,
    uneven_configs,
)
from attest.outcomes import Expected, NotOffered


@verifies("M2.1")
@given(case=multi_head_cases(masks=("none",), min_heads=2))
def heads_divide_the_width(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """Every feature takes part, from one head to as many heads as features."""
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    expect_close(seen, case.expected["output"], "output", factor=component.widening)
    for heads in (1, case.D):
        other = case.but(H=heads, d=case.D // heads).fitted(impl)
        seen = other.loaded(impl)(**other.inputs)["output"]
        what = f"output with {other.H} heads of width {other.d}"
        expect_close(seen, other.expected["output"], what, factor=component.widening)


@verifies("M2.1")
def uneven_heads_are_refused(impl: JudgedImplementation) -> None:
    """Building with heads that do not divide the width raises an exception."""
    for what, config in uneven_configs(impl).items():
        note_case(what, "refusal")
        expect_refused(partial(impl.raw_build, OPERATION, config), what)


@verifies("M2.1a")
def the_refusal_names_both_numbers(impl: JudgedImplementation) -> None:
    """A ValueError names num_heads and d_model with their values."""
    for what, config in uneven_configs(impl).items():
        note_case(what, "refusal")
        build = partial(impl.raw_build, OPERATION, config)
        values = (str(config.num_heads), str(config.d_model))
        expect_refused_by_name(build, what, "num_heads", "d_model", *values)


law_holds(
    FORMULA,
    "M2.2",
    multi_head_cases(min_heads=2, min_keys=2),
    OPERATION,
    name="every_head_reads_the_whole_input",
    sentence="With injected weights the output is that of a loop over the heads.",
)


@verifies("M2.2", effort=0.5)
@given(
    case=multi_head_cases(masks=("none", "keys", "pairs")), S=st.sampled_from(LONG), H=st.sampled_from((2, 8))
)
def longer_sequences_and_more_heads_too(
    impl: JudgedImplementation, case: MultiHeadCase, S: int, H: int
) -> None:
    """The formula holds at lengths around the blocks of fused kernels and with the paper's heads."""
    FORMULA.check(impl, case.but(S=S, T=S if case.own else case.T, H=H).fitted(impl))


@verifies("M2.3")
def no_python_loop_over_heads(impl: JudgedImplementation) -> None:
    """The interpreter executes as many bytecodes for 16 heads as for 2."""
    few, many = (
        MultiHeadCase(B=2, H=h, T=6, S=6, d=32 // h, mask="keys", dtype=impl.dtypes[0]).offered(impl)
        for h in (2, 16)
    )
    note_case(f"{few} against {many}", "bytecodes")
    least, most = (python_work(case.loaded(impl), case.inputs) for case in (few, many))
    sizes = f"{most} bytecodes with 16 heads and {least} with 2"
    expect(most <= 1.5 * least, f"{sizes}, should be at most 1.5 times as many")


@verifies("M2.4")
@given(case=multi_head_cases(min_heads=2, min_keys=2))
def heads_are_joined_in_order_and_mixed(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """Head i attends to slice i of the features; the output map mixes the joined heads."""
    maps = case.plain_maps()
    component, wanted = case.loaded(impl, maps), case.expected_for(parameters=maps)["output"]
    seen = component(**case.inputs)["output"]
    expect_close(seen, wanted, "output with identity maps", factor=component.widening)


@verifies("M2.4")
@given(case=multi_head_cases(min_heads=2, min_keys=2, regimes=("unit", "saturated")))
def a_head_without_values_adds_nothing(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """Zero rows in W_V take out one head's contribution and nothing else."""
    silent = case.seed % case.H
    maps = case.without_head(silent, case.parameters)
    component, wanted = case.loaded(impl, maps), case.expected_for(parameters=maps)["output"]
    seen = component(**case.inputs)["output"]
    expect_close(seen, wanted, f"output without head {silent}", factor=component.widening)
    changed = {n: x.copy() for n, x in maps.items()}
    changed["output.weight"][:, case.head(silent)] += 1.0
    again = case.loaded(impl, changed)(**case.inputs)["output"]
    what = f"output after changing what the output map makes of the silent head {silent}"
    expect_close(again, wanted, what, factor=2 * component.widening)


@verifies("M2.5")
@given(case=multi_head_cases())
def the_shape_of_the_query_is_kept(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """The output is (B, T, D) for keys of any length."""
    seen = case.loaded(impl)(**case.inputs)["output"]
    expect_shape(seen, (case.B, case.T, case.D), "output")


@verifies("M2.6")
@given(
    case=multi_head_cases(
        masks=("none", "keys", "causal"), min_heads=2, min_keys=2, min_width=8, regimes=("unit", "init")
    )
)
def multi_head_attention_agrees_with_torch(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """The output lies within 1e-5 of nn.MultiheadAttention's with the same weights."""
    case = case.but(dtype=impl.dtypes[0])
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    expect_near(seen, torchs_answer(case), component.widening * case.literal(1e-5), "output")


def torchs_answer(case: MultiHeadCase) -> Array:
    """nn.MultiheadAttention in training mode without dropout: in eval it may take another path."""
    import torch

    dtype = torch.float64 if case.dtype == "float64" else torch.float32
    module = torch.nn.MultiheadAttention(case.D, case.H, bias=case.bias, batch_first=True, dtype=dtype)
    p = {name: torch.tensor(value) for name, value in case.parameters.items()}
    own = {"in_proj_weight": torch.cat([p[f"{n}.weight"] for n in ("query", "key", "value")])}
    own["out_proj.weight"] = p["output.weight"]
    if case.bias:
        own["in_proj_bias"] = torch.cat([p[f"{n}.bias"] for n in ("query", "key", "value")])
        own["out_proj.bias"] = p["output.bias"]
    module.load_state_dict(own)
    q, kv = (torch.tensor(case.inputs[n]) for n in ("query", "key_value"))
    hidden = None if case.mask == "none" else torch.tensor(~case.visible).repeat_interleave(case.H, 0)
    with torch.no_grad():
        output: Array = module(q, kv, kv, attn_mask=hidden, need_weights=False)[0].numpy()
    return output


@verifies("M2.7", large=2)
@given(case=multi_head_cases(min_heads=2, min_keys=2))
def weights_are_those_of_each_head(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """Weights are (B, H, T, S), one map for each head, and their rows sum to one."""
    component, wanted = case.loaded(impl), case.expected["weights"]
    seen = component(**case.inputs)
    if "weights" not in seen:
        return
    expect_close(seen["weights"], wanted, "weights", factor=component.widening)
    total = Expected(np.ones(wanted.value.shape[:-1]), wanted.bound[..., 0] * case.S)
    sums = seen["weights"].sum(-1, dtype=np.float64)
    expect_close(sums, total, "the sum of a query's weights", factor=component.widening)


@verifies("M2.7", effort=0.25)
@given(case=multi_head_cases(min_heads=2, min_keys=2, regimes=("unit",)))
def weights_are_those_before_dropout(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """In train mode too, the weights returned are those of the softmax."""
    expect_weights_before_dropout(impl, case)


@verifies("M2.7a")
def heads_differ_at_initialisation(impl: JudgedImplementation) -> None:
    """No two heads start with the same rows or attend alike."""
    for seed in range(3):
        case = MultiHeadCase(B=2, H=4, T=5, S=5, d=8, own=True, dtype=impl.dtypes[0], seed=seed).fitted(impl)
        note_case(str(case), "init")
        component = impl.build(OPERATION, case.config.but(seed=100 + seed))  # a config no other case loads
        held = component.parameters()
        for name in ("query", "key", "value"):
            rows = held[f"{name}.weight"].reshape(case.H, -1)
            expect(
                len(np.unique(rows, axis=0)) == case.H, f"two heads start with equal rows of {name}.weight"
            )
        weights = component(**case.inputs).get("weights", case.expected_for(parameters=held)["weights"].value)
        expect_shape(weights, (case.B, case.H, case.T, case.S), "weights")
        maps = np.moveaxis(weights, 1, 0).reshape(case.H, -1)
        expect(len(np.unique(maps.round(6), axis=0)) == case.H, "two heads attend alike at the start")


@verifies("M2.11")
@given(case=multi_head_cases(masks=("none",)))
def parameters_are_counted(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """There are 4 D^2 parameters, and 4 D more with biases, for any number of heads."""
    component = impl.build(OPERATION, case.config)
    if not hasattr(component.component, "parameters"):
        raise NotOffered(f"{OPERATION} has no parameters()")
    held, wanted = component.parameters(), shapes(OPERATION, case.config)
    for name, shape in wanted.items():
        expect_shape(held[name], shape, name)
    count, right = sum(x.size for x in held.values()), sum(int(np.prod(s)) for s in wanted.values())
    expect(
        count == right, f"{count} learned numbers for {case.H} heads and width {case.D}, should be {right}"
    )


@verifies("M2.11")
@given(case=multi_head_cases(min_heads=2, min_keys=2, regimes=("unit",)), moved=st.integers(0, 3))
def each_head_owns_its_slice(impl: JudgedImplementation, case: MultiHeadCase, moved: int) -> None:
    """New rows of W_Q in one head change that head's part and no other."""
    head = moved % case.H
    maps = [case.open_heads(p) for p in (case.parameters, case.moving_head(head))]
    wanted = [case.expected_for(parameters=p)["output"] for p in maps]
    before, after = (case.loaded(impl, p)(**case.inputs)["output"] for p in maps)
    component = case.loaded(impl)
    what = f"after changing head {head}'s rows of query.weight"
    expect_close(after, wanted[1], f"what the heads bring {what}", factor=component.widening)
    others = np.delete(np.arange(case.D), case.head(head))
    unmoved = Expected(before[..., others].astype(np.float64), wanted[0].bound)
    expect_close(after[..., others], unmoved, f"what other heads bring {what}", factor=2 * component.widening)


law_holds(GRADIENTS, "M2.12", multi_head_cases(min_keys=2), OPERATION, name="gradients_are_right")


@verifies("M2.12", effort=0.5)
@given(case=multi_head_cases(min_batch=2, regimes=("unit",)))
def blind_rows_do_not_spoil_gradients(impl: JudgedImplementation, case: MultiHeadCase) -> None:
    """A row of padding in the batch leaves the gradients of the other rows right."""
    case = case.sharpest(impl)
    component = case.loaded(impl)
    inputs, _ = case.blinded()
    seen = component.gradients(inputs, case.cotangents())
    expect_gradients(seen, case.gradients_for(inputs), factor=component.widening)


@verifies("M2.15")
def dropped_weights_keep_their_mean(impl: JudgedImplementation) -> None:
    """Over 400 seeds the mean of the output is that of eval, because kept weights are divided by 1 - p."""
    case = MultiHeadCase(B=2, H=2, T=3, S=5, d=2, dtype=impl.dtypes[0]).fitted(impl)
    ones = {name: np.ones_like(x) for name, x in case.inputs.items()}
    config = case.config if case.fixed else case.config.but(dropout=RATE)
    expect_mean_of_evaluation(impl, case, config, ones, case.constant_values())
