"""M1: projections, the formula of attention, its weights, scale, stability and gradients."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_finite,
    expect_near,
    expect_shape,
    expect_zero,
)
from attest.contract import Config, float_dtype
from attest.evidence import note_case
from attest.judging.laws import FORMULA, GRADIENTS, law_holds
from attest.judging.property import given, verifies
from attest.milestones.m01_attention.cases.attention import (
    LONG,
    MASKS,
    AttentionCase,
    attention_cases,
    weights_of,
)
from attest.milestones.m01_attention.cases.projections import ProjectionCase, projection_cases
from attest.milestones.m01_attention.checks import expect_weights_before_dropout
from attest.outcomes import Expected

MAPS = (("query", "q"), ("key", "k"), ("value", "v"))


law_holds(
    FORMULA,
    "M1.1",
    projection_cases(),
    "qkv_projection",
    name="projections_follow_their_weights",
    sentence="q, k and v are x W^T + b, each with weights of its own.",
)


@verifies("M1.1")
@given(case=projection_cases())
def projections_do_not_share(impl: JudgedImplementation, case: ProjectionCase) -> None:
    """Changing one map moves that map only."""
    component = impl.build("qkv_projection", case.config)
    for name, _ in MAPS:
        component.load(case.moving(name))
        seen = component(**case.inputs)
        for other, wanted in case.expected_for(parameters=case.moving(name)).items():
            what = f"{other} after changing {name}.weight"
            expect_close(seen[other], wanted, what, factor=2 * component.widening)


@verifies("M1.1")
@given(case=projection_cases())
def projections_are_learned(impl: JudgedImplementation, case: ProjectionCase) -> None:
    """Every weight and bias is a parameter, none a buffer, and what is loaded is what is held."""
    component = impl.build("qkv_projection", case.config)
    component.load(case.parameters)
    held = component.parameters()
    for name, value in case.parameters.items():
        expect(name in held, f"{name} is not among the parameters")
        expect_near(held[name], value, case.storing_error(name), f"the loaded {name}")
    buffers = component.buffers() if hasattr(component.component, "buffers") else {}
    kept = sorted(case.parameters.keys() & buffers.keys())
    expect(not kept, f"{', '.join(kept)} should be a parameter, not a buffer")


law_holds(
    FORMULA,
    "M1.2",
    attention_cases(),
    "attention",
    name="attention_equals_its_formula",
    sentence="softmax(QK^T / sqrt(d_k)) V in every regime and shape.",
)


@verifies("M1.2", effort=0.75)
@given(case=attention_cases(), S=st.sampled_from(LONG), wide=st.sampled_from((0, 0, 16, 64)))
def longer_sequences_and_wider_heads_too(
    impl: JudgedImplementation, case: AttentionCase, S: int, wide: int
) -> None:
    """Attention is right at lengths around the blocks of fused kernels and at real widths."""
    FORMULA.check(impl, case.but(S=S, d_k=wide or case.d_k, d_v=wide or case.d_v).fitted(impl))


@verifies("M1.2", effort=0.2)
@given(case=attention_cases(masks=("none", "keys"), regimes=("tiny",)), S=st.sampled_from((129, 200, 513)))
def every_key_of_a_long_row_counts(impl: JudgedImplementation, case: AttentionCase, S: int) -> None:
    """Among hundreds of keys with nearly equal scores, each has its share."""
    FORMULA.check(impl, case.but(S=S))


@verifies("M1.2")
def attention_of_a_worked_example(impl: JudgedImplementation) -> None:
    """Scores ln 3 and 0 give weights 3/4 and 1/4, so values 4 and 0 mix to 3."""
    config = Config(dtype=impl.dtypes[0])
    q = np.array([[[2 * math.log(3), 0, 0, 0]]], float_dtype(config.dtype))
    k = np.array([[[1, 0, 0, 0], [0, 0, 0, 0]]], q.dtype)
    v = np.array([[[4.0, 8.0], [0.0, -8.0]]], q.dtype)
    note_case("q=(2 ln 3, 0, 0, 0) k=(1, 0, 0, 0), (0, 0, 0, 0) v=(4, 8), (0, -8)", "worked by hand")
    component = impl.build("attention", config)
    # 1e-5 is the literal tolerance of the acceptance criteria; half precision cannot hold it.
    tolerance = 16 * 2.0**-8 if config.dtype in ("bfloat16", "float16") else 1e-5
    wanted = np.array([[[3.0, 4.0]]])
    expect_near(component(q=q, k=k, v=v)["output"], wanted, tolerance * component.widening, "output")


@verifies("M1.3", large=2)
@given(case=attention_cases())
def weights_are_a_distribution(impl: JudgedImplementation, case: AttentionCase) -> None:
    """Weights lie in [0, 1] and sum to one over the keys."""
    component, wanted = case.loaded(impl), case.expected["weights"]
    weights = weights_of(component, case.inputs)
    expect_shape(weights, wanted.value.shape, "weights")
    expect_finite(weights, "weights")
    top = 1 + component.widening * wanted.bound
    expect(bool(np.all((weights >= 0) & (weights <= top))), "a weight lies outside [0, 1]")
    total = Expected(np.ones(weights.shape[:-1]), wanted.bound[..., 0] * case.S)
    what = "the sum of a query's weights"
    expect_close(weights.sum(-1, dtype=np.float64), total, what, factor=component.widening)


@verifies("M1.3")
@given(case=attention_cases())
def output_is_weights_times_values(impl: JudgedImplementation, case: AttentionCase) -> None:
    """The weights returned are the weights used, and all-ones values come out as ones."""
    component, wanted = case.loaded(impl), case.expected["output"]
    seen = component(**case.inputs)
    if "weights" in seen:
        expect_shape(seen["weights"], case.expected["weights"].value.shape, "weights")
        used = seen["weights"].astype(np.float64) @ case.inputs["v"].astype(np.float64)
        what = "output, against weights @ v,"
        # Both sides are the implementation's own and each may be off by a bound.
        expect_close(seen["output"], Expected(used, wanted.bound), what, factor=2 * component.widening)
    ones = case.with_inputs(v=np.ones_like(case.inputs["v"]))
    what = "output for all-ones values"
    total = Expected(np.ones(wanted.value.shape), case.expected_for(ones)["output"].bound)
    expect_close(component(**ones)["output"], total, what, factor=2 * component.widening)


@verifies("M1.3", effort=0.25)
@given(case=attention_cases(regimes=("unit",)))
def weights_are_those_before_dropout(impl: JudgedImplementation, case: AttentionCase) -> None:
    """In train mode too, the weights returned are those of the softmax."""
    expect_weights_before_dropout(impl, case)


@verifies("M1.8")
# Not causal: torch's triangle starts at the first key, ours ends at the last, so they differ where T != S.
@given(case=attention_cases(causal=False, min_width=8, regimes=("unit", "init")))
def attention_agrees_with_torch(impl: JudgedImplementation, case: AttentionCase) -> None:
    """The output lies within 1e-5 of F.scaled_dot_product_attention's."""
    import torch

    case = case.but(dtype=impl.dtypes[0])
    q, k, v = (torch.tensor(case.inputs[n]) for n in "qkv")
    mask = None if case.mask == "none" else torch.tensor(case.allowed)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).numpy()
    component = case.loaded(impl)
    tolerance = component.widening * case.literal(1e-5)
    expect_near(component(**case.inputs)["output"], wanted, tolerance, "output")


@verifies("M1.9")
@given(case=attention_cases(regimes=("unit",), min_keys=2), size=st.sampled_from((1e4, 1e6, -1e4)))
def softmax_is_stable(impl: JudgedImplementation, case: AttentionCase, size: float) -> None:
    """The output is finite and right where the exponential of a score overflows."""
    inputs = case.with_scores_of(size)
    component, wanted = case.loaded(impl), case.expected_for(inputs)["output"]
    expect_close(component(**inputs)["output"], wanted, "output", factor=component.widening)


@verifies("M1.9")
@given(
    case=attention_cases(regimes=("unit",), masks=("none",), min_keys=2),
    shift=st.sampled_from((30.0, 200.0, -200.0)),
)
def a_common_shift_of_the_scores_changes_nothing(
    impl: JudgedImplementation, case: AttentionCase, shift: float
) -> None:
    """Adding one vector to every key shifts all scores of a query alike."""
    k = case.inputs["k"]
    inputs = case.with_inputs(k=(k + np.asarray(shift, k.dtype)).astype(k.dtype))
    component, wanted = case.loaded(impl), case.expected_for(inputs)["output"]
    expect_close(component(**inputs)["output"], wanted, "output", factor=component.widening)


@verifies("M1.10")
@given(
    case=attention_cases(regimes=("unit", "saturated"), min_keys=2, copies=(2, 6)),
    way=st.sampled_from(("tiled", "padded")),
)
def scale_is_the_root_of_the_width(impl: JudgedImplementation, case: AttentionCase, way: str) -> None:
    """Tiling features c times acts as Q times sqrt(c), padding them with zeros as Q over sqrt(c)."""
    component = case.loaded(impl)
    wide, scaled = case.widened_features(way)
    bound = case.expected_for(wide)["output"].bound + case.expected_for(scaled)["output"].bound
    wanted = component(**scaled)["output"].astype(np.float64)
    expect_shape(wanted, case.expected["output"].value.shape, "output")
    what = f"output for {way} features"
    expect_close(component(**wide)["output"], Expected(wanted, bound), what, factor=component.widening)


law_holds(GRADIENTS, "M1.13", attention_cases(), "attention", name="gradients_are_right")


@verifies("M1.13")
@given(case=attention_cases())
def hidden_rows_get_no_gradient(impl: JudgedImplementation, case: AttentionCase) -> None:
    """A key and value that no query sees has a gradient of exactly zero."""
    case = case.sharpest(impl)
    seen = case.loaded(impl).gradients(case.inputs, case.cotangents())
    for name in ("k", "v"):
        expect_zero(seen.inputs[name][case.unseen], f"the gradient of a hidden row of {name}")


@verifies("M1.13", effort=0.2)
@given(case=attention_cases(min_keys=2, regimes=("unit", "init")))
def gradients_are_right_in_every_form(impl: JudgedImplementation, case: AttentionCase) -> None:
    """Gradients are right for every form of mask and none, for one query as in decoding and for several."""
    # Every combination, not a draw: a backward pass that has a branch of its own for one query or one form of
    # mask is met for certain.
    for mask, T in product(MASKS, (1, case.T)):
        found = case.but(mask=mask, T=T).fitted(impl)
        GRADIENTS.check(impl, found)
        hidden_rows_get_no_gradient(impl, found)
