"""M8: heads that share keys, and heads of a width of their own."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_near, expect_refused, expect_same_bits
from attest.contract.parameters import shapes
from attest.evidence import note_case
from attest.judging.cases import seeds
from attest.judging.laws import FORMULA, GRADIENTS, SIDE_EFFECTS_IN_TRAINING
from attest.judging.named import ONCE, named
from attest.judging.property import given, verifies
from attest.milestones.m01_attention.checks import RATE, expect_mean_of_evaluation
from attest.milestones.m07_positions.checks import expect_steps, leave_out_unless_offered
from attest.milestones.m08_attention_variants.cases.heads import HeadsCase, called, heads_cases
from attest.milestones.m09_models_of_today.cases.language_models import (
    LanguageModelCase,
    language_model_cases,
)
from attest.outcomes import Expected
from attest.reference.oracle import EPSILON

SMALL = ("unit", "init")


@verifies("M8.1", large=1)
@given(case=heads_cases(grouped=True))
def grouped_heads_equal_their_formula(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Query head h reads key head h // (H / G), with every option that is claimed beside."""
    FORMULA.check(impl, case)


@verifies("M8.1")
@given(case=heads_cases(grouped=True))
def grouped_heads_are_repeated_key_heads(impl: JudgedImplementation, case: HeadsCase) -> None:
    """As many key heads as query heads, each group's repeated one after the other, give the same."""
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    whole = called(impl, case.with_option(num_kv_heads=None), case.repeated()).astype(np.float64)
    wanted = Expected(whole, case.output.bound)
    what = f"output of {case.config.kv_heads} key heads for {case.H} query heads"
    expect_close(seen, wanted, what, factor=2 * component.widening)


@verifies("M8.2")
@given(case=heads_cases(grouped=True))
def key_heads_have_their_own_parameters(impl: JudgedImplementation, case: HeadsCase) -> None:
    """2 D H d + 2 D G d weights, and biases and norms, under their names and in their shapes."""
    component = case.unloaded(impl)
    seen = {name: value.shape for name, value in component.parameters().items()}
    wanted = shapes("self_attention", case.config)
    for name, shape in wanted.items():
        found = seen.get(name)
        expect(found == shape, f"parameter {name} has shape {found}, should be {shape}")
    extra = sorted(seen.keys() - wanted.keys())
    expect(not extra, f"there are further parameters: {', '.join(extra)}; nothing else is learned")


@verifies("M8.2", effort=0.5)
@given(
    case=heads_cases(grouped=True, regimes=SMALL, masks=("none",), at=("counted",)),
    which=st.sampled_from(("key", "value")),
)
def a_key_head_serves_its_group_alone(impl: JudgedImplementation, case: HeadsCase, which: str) -> None:
    """With one key head changed, exactly the query heads of its group bring back something else."""
    case = case.sharpest(impl)
    c = case.config
    group = case.seed % c.kv_heads
    for head in range(c.num_heads):
        before = case.watching(head)
        changed = before[f"{which}.weight"].copy()
        changed[case.rows_of(group)] += np.asarray(0.5, changed.dtype)
        outputs = [called(impl, case, p) for p in (before, {**before, f"{which}.weight": changed})]
        mine = head // (c.num_heads // c.kv_heads) == group
        moved = bool((outputs[0] != outputs[1]).any())
        expected = mine and (which == "value" or (case.W > 1 and case.T > 1))
        sees = f"query head {head} {'changed' if moved else 'did not change'} with {which} head {group}"
        expect(moved == expected or (mine and not expected), f"{sees} of {c.kv_heads}, should be the reverse")


@verifies("M8.3", large=1)
@given(case=heads_cases(own_width=True))
def heads_of_their_own_width_equal_their_formula(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Scores are divided by the root of the head's width, and the output has the model's width."""
    FORMULA.check(impl, case)


@verifies("M8.3", effort=0.5)
@given(case=heads_cases(own_width=True, masks=("none",), regimes=SMALL))
def the_scale_is_that_of_the_head(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Four times as many features per head, of which the further ones are zero, and queries of twice the
    size: the scores are the same, and so is the output."""
    c = case.config
    if c.positions in ("rotary",) or c.qk_norm or c.attention_scale is not None or c.score_cap or case.fixed:
        return  # features are paired, or their number counts elsewhere too
    wide = case.with_option(head_width=4 * c.d_head)
    component = wide.loaded(impl, widened(case))
    seen = component(**case.inputs)["output"]
    before = called(impl, case, case.parameters).astype(np.float64)
    wanted = Expected(before, case.output.bound)
    expect_close(seen, wanted, "output of heads with empty features", factor=2 * component.widening)


def widened(case: HeadsCase) -> dict[str, np.ndarray]:
    """Heads of four times the width: the further features are zero, and queries are doubled."""
    d, made = case.config.d_head, {}
    for name, value in case.parameters.items():
        map_, kind = name.split(".")
        if map_ in ("query", "key", "value"):
            rows = value.reshape(-1, d, *value.shape[1:])
            rows = rows * 2 if map_ == "query" else rows
            empty = np.zeros((rows.shape[0], 3 * d, *rows.shape[2:]), rows.dtype)
            made[name] = np.concatenate([rows, empty], axis=1).reshape(-1, *value.shape[1:])
        elif map_ == "output" and kind == "weight":
            columns = value.reshape(len(value), -1, d)
            empty = np.zeros((*columns.shape[:2], 3 * d), value.dtype)
            made[name] = np.concatenate([columns, empty], axis=2).reshape(len(value), -1)
        else:
            made[name] = value
    return made


@verifies("M8.15")
@given(case=st.one_of(heads_cases(wants="score_cap:5.0"), heads_cases(wants="score_cap:1.5")))
def capped_scores_equal_their_formula(impl: JudgedImplementation, case: HeadsCase) -> None:
    """A scaled score s becomes c tanh(s / c), before biases and masks."""
    FORMULA.check(impl, case)


@verifies("M8.15", effort=0.5)
@given(case=heads_cases(wants="score_cap:5.0", regimes=("tiny",)))
def a_high_cap_changes_nothing(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Scores far below the cap stay as they are, within twice the bound."""
    component = case.loaded(impl)
    seen = component(**case.inputs)["output"]
    plain = called(impl, case.with_option(score_cap=None), case.parameters).astype(np.float64)
    high = case.output.bound + np.abs(case.output.value - case.with_option(score_cap=None).output.value)
    expect_close(seen, Expected(plain, high), "output below a high cap", factor=2 * component.widening)


@verifies("M8.15a")
@given(case=st.one_of(heads_cases(wants="sinks:true"), heads_cases(wants="sinks:true", grouped=True)))
def attention_with_sinks_equals_its_formula(impl: JudgedImplementation, case: HeadsCase) -> None:
    """One score more for each head, which every query sees, and whose weight goes to no value."""
    FORMULA.check(impl, case)


@verifies("M8.15a", effort=0.5)
@given(case=heads_cases(wants="sinks:true", regimes=("unit", "init")))
def a_low_sink_changes_nothing(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Far below all scores a sink has no weight: the output is that without one."""
    plain = case.with_option(sinks=False)
    weights = {name: x for name, x in case.parameters.items() if not name.startswith("sinks")}
    low = {**weights, "sinks.weight": np.full_like(case.parameters["sinks.weight"], -1e4)}
    component = case.loaded(impl, low)
    seen = component(**case.inputs)["output"]
    expected = plain.output_for(parameters=weights)
    wanted = Expected(called(impl, plain, weights).astype(np.float64), expected.bound)
    expect_close(seen, wanted, "output beside a low sink", factor=2 * component.widening)


@verifies("M8.15a")
def a_sink_counts_as_one_key(impl: JudgedImplementation) -> None:
    """Worked by hand: with scores and sink of zero and values of 1, a query of n keys gets n / (n + 1)."""
    case = HeadsCase(B=1, H=2, T=3, d=2, causal=True, options="sinks:true", dtype=impl.dtypes[0]).fitted(impl)
    given = {name: np.zeros_like(x) for name, x in case.parameters.items()}
    given["value.weight"][:, 0] = 1.0  # of an x of ones; a bias is not everybody's
    given["output.weight"] = np.eye(*given["output.weight"].shape, dtype=given["output.weight"].dtype)
    note_case("scores and sink of zero, values of one", "worked by hand")
    seen = case.loaded(impl, given)(**{**case.inputs, "x": np.ones_like(case.inputs["x"])})["output"]
    wanted = np.broadcast_to(np.array([1 / 2, 2 / 3, 3 / 4])[:, None], seen.shape)
    expect_near(seen, wanted, 16 * EPSILON[case.dtype], "output")


def texts(wants: str) -> st.SearchStrategy[LanguageModelCase]:
    """Language models with an option, read behind padding too."""
    return language_model_cases(wants=(wants,), paddings=("none", "left"), min_length=3)


@verifies("M8.15", effort=0.5)
@given(case=texts("score_cap:1.5"), cut=seeds())
def scores_are_capped_in_steps(impl: JudgedImplementation, case: LanguageModelCase, cut: int) -> None:
    """Steps through a cache have the logits of the full pass."""
    leave_out_unless_offered(impl, case.operation)
    expect_steps(impl, case, cut)


@verifies("M8.15a", effort=0.5)
@given(case=texts("sinks:true"), cut=seeds())
def sinks_take_their_share_in_steps(impl: JudgedImplementation, case: LanguageModelCase, cut: int) -> None:
    """Steps through a cache have the logits of the full pass."""
    leave_out_unless_offered(impl, case.operation)
    expect_steps(impl, case, cut)


@verifies("M8.16", effort=0.5)
@given(case=st.one_of(heads_cases(wants="sinks:true"), heads_cases(wants="score_cap:1.5")))
def gradients_of_sinks_and_caps(impl: JudgedImplementation, case: HeadsCase) -> None:
    """A sink takes weight from every query of its head; a cap bends the slope of a score."""
    GRADIENTS.check(impl, case)


@verifies("M8.16", effort=0.5)
@given(case=heads_cases(grouped=True))
def gradients_of_grouped_heads(impl: JudgedImplementation, case: HeadsCase) -> None:
    """The gradient of a key head is the sum over the query heads of its group."""
    GRADIENTS.check(impl, case)


@verifies("M8.18", effort=0.3)
@given(case=heads_cases(grouped=True))
def grouped_heads_leave_no_trace(impl: JudgedImplementation, case: HeadsCase) -> None:
    """In eval and in train mode."""
    SIDE_EFFECTS_IN_TRAINING.check(impl, case)


@verifies("M8.17", effort=0.5)
@given(case=heads_cases(grouped=True), wrong=st.sampled_from((0, -1, 4, 7, 1.5)))
def key_heads_that_do_not_divide_are_refused(
    impl: JudgedImplementation, case: HeadsCase, wrong: object
) -> None:
    """num_kv_heads divides num_heads, or the builder or the first call raises."""
    case = case.but(H=6).with_option(num_kv_heads=None)
    config = case.config.but(num_kv_heads=wrong)
    what = f"num_kv_heads={wrong!r} of 6 heads"
    expect_refused(lambda: impl.raw_build("self_attention", config)(**case.inputs), what)


@verifies("M8.2", effort=0.3)
@given(case=heads_cases(grouped=True, regimes=SMALL, masks=("none", "keys")))
def loaded_key_heads_come_back(impl: JudgedImplementation, case: HeadsCase) -> None:
    """What `load` took, `parameters` returns to the bit."""
    component = case.loaded(impl)
    for name, value in component.parameters().items():
        expect_same_bits(value, case.parameters[name], name)


@verifies("M8.19", effort=ONCE)
@given(case=named(HeadsCase(B=2, H=4, T=5, pick=1), HeadsCase(B=2, H=4, T=5, pick=1, wants="num_kv_heads:2")))
def dropped_weights_keep_their_mean(impl: JudgedImplementation, case: HeadsCase) -> None:
    """Over 400 seeds the mean of the output is that of eval, because kept weights are divided by 1 - p."""
    ones = case.with_inputs(x=np.ones_like(case.inputs["x"]))
    config = case.config if case.fixed else case.config.but(dropout=RATE)
    expect_mean_of_evaluation(impl, case, config, ones, case.constant_values())
