"""M1: scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import Boundary, Subject
from attest.checks import (
    expect,
    expect_close,
    expect_finite,
    expect_gradients,
    expect_near,
    expect_refused,
    expect_refused_by_name,
    expect_same_bits,
    expect_shape,
    expect_zero,
)
from attest.contract import Array, Config
from attest.evidence import note_case
from attest.hygiene import expect_no_trace, python_work
from attest.properties import given, verifies
from attest.reference.oracle import Expected, bounded_gradients, expected
from attest.strategies.attention import AttentionCase, attention_cases
from attest.strategies.cases import seeds
from attest.strategies.mask_cases import MaskCase, mask_cases
from attest.strategies.projections import ProjectionCase, projection_cases


def attention(impl: Subject, case: AttentionCase) -> Boundary:
    """The component of a case."""
    return impl.build("attention", case.config)


def weights_of(component: Boundary, inputs: dict[str, Any]) -> Array:
    """The weights, read off with V = identity where the component returns none."""
    seen = component(**inputs)
    if "weights" in seen:
        return seen["weights"]
    k = inputs["k"]
    identity = np.broadcast_to(np.eye(k.shape[-2], dtype=k.dtype), (*k.shape[:-1], k.shape[-2]))
    return component(**{**inputs, "v": identity})["output"]


def widened(wanted: Expected, factor: float) -> Expected:
    """The same value with a wider bound."""
    return Expected(wanted.value, wanted.bound * factor)


@verifies("M1.1")
@given(case=projection_cases())
def projections_follow_their_weights(impl: Subject, case: ProjectionCase) -> None:
    """q, k and v are x W^T + b, each with weights of its own."""
    component = impl.build("qkv_projection", case.config)
    component.load(case.parameters)
    seen = component(x=case.x)
    for name, wanted in case.expected.items():
        expect(name in seen, f"qkv_projection returned no {name}")
        expect_close(seen[name], wanted, name, factor=impl.factor("qkv_projection"))


@verifies("M1.1")
@given(case=projection_cases())
def projections_do_not_share(impl: Subject, case: ProjectionCase) -> None:
    """Changing one map moves that map only; all are parameters and none is a buffer."""
    component = impl.build("qkv_projection", case.config)
    missing = case.parameters.keys() - component.parameters().keys()
    expect(not missing, f"{min(missing, default='')} is not among the parameters")
    for name, output in (("query", "q"), ("key", "k"), ("value", "v")):
        component.load(case.moving(name))
        for other, wanted in case.expected_when_moving(name).items():
            expect_close(
                component(x=case.x)[other], wanted, f"{other} after changing {name}.weight", factor=2
            )
        expect(output in component(x=case.x), f"qkv_projection returned no {output}")


@verifies("M1.2")
@given(case=attention_cases())
def attention_equals_its_formula(impl: Subject, case: AttentionCase) -> None:
    """softmax(QK^T / sqrt(d_k)) V in every regime and shape."""
    seen = attention(impl, case)(**case.inputs)
    expect("output" in seen, f"attention returned {sorted(seen)}, should return output")
    expect_close(seen["output"], case.expected["output"], "output", factor=impl.factor("attention"))


@verifies("M1.2")
def attention_of_a_worked_example(impl: Subject) -> None:
    """Scores ln 3 and 0 give weights 3/4 and 1/4, so values 4 and 0 mix to 3."""
    dtype = impl.dtypes[0]
    q = np.array([[[2 * math.log(3), 0, 0, 0]]], np.float64 if dtype == "float64" else np.float32)
    k = np.array([[[1, 0, 0, 0], [0, 0, 0, 0]]], q.dtype)
    v = np.array([[[4.0, 8.0], [0.0, -8.0]]], q.dtype)
    note_case("q=(2 ln 3, 0, 0, 0) k=(1, 0, 0, 0), (0, 0, 0, 0) v=(4, 8), (0, -8)", "worked by hand")
    inputs = {"q": q, "k": k, "v": v}
    wanted = expected("attention", Config(dtype=dtype), {}, inputs)["output"]
    assert np.allclose(wanted.value, [[[3.0, 4.0]]], atol=1e-6)  # the reference itself, against paper
    expect_close(impl.build("attention", Config(dtype=dtype))(**inputs)["output"], wanted, "output")


@verifies("M1.3")
@given(case=attention_cases())
def weights_are_a_distribution(impl: Subject, case: AttentionCase) -> None:
    """In [0, 1], and they sum to one over the keys."""
    weights = weights_of(attention(impl, case), case.inputs)
    wanted = case.expected["weights"]
    expect_shape(weights, wanted.value.shape, "weights")
    expect_finite(weights, "weights")
    expect(bool(np.all(weights >= 0) and np.all(weights <= 1 + 1e-6)), "a weight lies outside [0, 1]")
    total = Expected(np.ones(weights.shape[:-1]), wanted.bound[..., 0] * case.S)
    expect_close(weights.sum(-1, dtype=np.float64), total, "the sum of a query's weights")


@verifies("M1.3")
@given(case=attention_cases())
def output_is_weights_times_values(impl: Subject, case: AttentionCase) -> None:
    """The weights returned are the weights used, and all-ones values come out as ones."""
    component = attention(impl, case)
    seen = component(**case.inputs)
    wanted = case.expected["output"]
    if "weights" in seen:
        used = seen["weights"].astype(np.float64) @ case.inputs["v"].astype(np.float64)
        expect_close(seen["output"], Expected(used, 2 * wanted.bound), "output, against weights @ v,")
    ones = case.with_inputs(v=np.ones_like(case.inputs["v"]))
    wanted_ones = expected("attention", case.config, {}, ones)["output"]
    expect_close(component(**ones)["output"], wanted_ones, "output for all-ones values")


@verifies("M1.4")
@given(
    case=attention_cases(masks=("keys", "pairs", "shared"), min_keys=2), junk=st.sampled_from((1e6, 1e3, 1.0))
)
def masked_keys_are_inert(impl: Subject, case: AttentionCase, junk: float) -> None:
    """Hidden keys have weight zero, and what stands behind them cannot reach the output."""
    component = attention(impl, case)
    expect_zero(weights_of(component, case.inputs)[~case.visible], "the weight of a hidden key")
    hidden = ~case.visible.any(-2)
    spoiled = spoil(case, hidden, junk)
    expect_same_bits(component(**spoiled)["output"], component(**case.inputs)["output"], "output")


def spoil(case: AttentionCase, hidden: Array, junk: float) -> dict[str, Any]:
    """Replace keys and values that no query sees."""
    k, v = case.inputs["k"].copy(), case.inputs["v"].copy()
    signs = np.where(case.rng(3).random(k.shape) < 0.5, -1, 1)
    k[hidden] = junk * signs[hidden]
    v[hidden] = junk
    return case.with_inputs(k=k, v=v)


@verifies("M1.4")
@given(
    case=attention_cases(masks=("keys", "pairs"), min_keys=2, kinds=("unit",)),
    depth=st.sampled_from((2e4, 2e5)),
)
def masked_keys_are_inert_below_any_fill(impl: Subject, case: AttentionCase, depth: float) -> None:
    """Visible scores far below any finite fill value still win over hidden ones."""
    q = np.full_like(case.inputs["q"], math.sqrt(depth))
    k = case.inputs["k"] * 0.01 - math.sqrt(depth)
    inputs = case.with_inputs(q=q, k=k.astype(q.dtype))
    component = attention(impl, case)
    expect_zero(weights_of(component, inputs)[~case.visible], "the weight of a hidden key")
    wanted = expected("attention", case.config, {}, inputs)["output"]
    expect_close(component(**inputs)["output"], wanted, "output")


@verifies("M1.4")
@given(case=attention_cases(masks=("keys",), causal=False, min_keys=2))
def masking_equals_deleting(impl: Subject, case: AttentionCase) -> None:
    """Row by row: leaving hidden keys out gives what masking them gives."""
    component = attention(impl, case)
    whole = component(**case.inputs)["output"]
    for b in range(case.B):
        seen = case.visible[b].reshape(-1, case.S)[0]
        q, k, v = (case.inputs[n][b : b + 1] for n in "qkv")
        alone = component(q=q, k=k[..., seen, :], v=v[..., seen, :])["output"]
        bound = 2 * case.expected["output"].bound[b : b + 1]
        expect_close(
            whole[b : b + 1], Expected(alone.astype(np.float64), bound), "output, against deleted keys,"
        )


@verifies("M1.4a")
@given(
    case=attention_cases(masks=("keys", "pairs"), min_keys=2),
    junk=st.sampled_from((math.nan, math.inf, -math.inf, 1e30)),
)
def non_finite_junk_is_inert(impl: Subject, case: AttentionCase, junk: float) -> None:
    """NaN and infinity behind the mask do not come through."""
    component = attention(impl, case)
    spoiled = spoil(case, ~case.visible.any(-2), junk)
    expect_same_bits(component(**spoiled)["output"], component(**case.inputs)["output"], "output")


@verifies("M1.4b")
@given(case=mask_cases())
def length_mask_hides_the_tail(impl: Subject, case: MaskCase) -> None:
    """True below the row's length."""
    mask = impl.call("length_mask", case.row_lengths, case.S)
    expect_mask(mask, (np.arange(case.S) < case.row_lengths[:, None])[:, None, :], "length_mask")


@verifies("M1.4c")
@given(case=mask_cases())
def padding_mask_hides_the_pads(impl: Subject, case: MaskCase) -> None:
    """True where the id is not the pad id, whatever that is."""
    mask = impl.call("padding_mask", case.ids, case.pad_id)
    expect_mask(mask, (case.ids != case.pad_id)[:, None, :], "padding_mask")


def expect_mask(seen: Array, wanted: Array, what: str) -> None:
    """A boolean mask, element by element."""
    expect(seen.dtype == np.bool_, f"{what} has dtype {seen.dtype}, should be bool")
    expect_shape(seen, wanted.shape, what)
    wrong = np.argwhere(seen != wanted)
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        expect(False, f"{what}{list(at)} is {bool(seen[at])}, should be {bool(wanted[at])}")


@verifies("M1.5")
@given(case=attention_cases(causal=True))
def weights_of_the_future_are_zero(impl: Subject, case: AttentionCase) -> None:
    """Zero after the diagonal, and the diagonal itself is seen."""
    weights = weights_of(attention(impl, case), case.inputs)
    expect_shape(weights, case.expected["weights"].value.shape, "weights")
    expect_zero(weights[~case.visible], "the weight of a later position")
    expect_close(weights, case.expected["weights"], "weights", factor=2)


@verifies("M1.5")
@given(case=attention_cases(causal=True, square=True, masks=("none", "keys")), cut=st.integers(0, 7))
def the_future_is_hidden(impl: Subject, case: AttentionCase, cut: int) -> None:
    """Changing what comes after a position leaves the output up to it as it was."""
    component = attention(impl, case)
    last = min(cut, case.S - 1)
    changed = {n: case.inputs[n].copy() for n in "qkv"}
    for array in changed.values():
        array[..., last + 1 :, :] += 3.0
    before = component(**case.inputs)["output"][..., : last + 1, :]
    after = component(**case.with_inputs(**changed))["output"][..., : last + 1, :]
    expect_same_bits(after, before, f"output up to position {last}")


@verifies("M1.5a")
@given(T=st.integers(1, 9), S=st.integers(1, 9))
def causal_mask_is_bottom_right(impl: Subject, T: int, S: int) -> None:
    """Query i sees keys up to i + S - T."""
    wanted = np.arange(S) <= np.arange(T)[:, None] + S - T
    expect_mask(impl.call("causal_mask", T, S), wanted, "causal_mask")
    impl.call("causal_mask", S, T + 1)
    expect_mask(impl.call("causal_mask", T, S), wanted, "causal_mask after a call of other lengths")


@verifies("M1.6")
@given(case=attention_cases(masks=("keys", "pairs", "shared"), min_keys=2), square=st.booleans())
def every_form_equals_its_expansion(impl: Subject, case: AttentionCase, square: bool) -> None:
    """A mask that broadcasts does what the same mask written out does, also where B == T or B == H."""
    case = case.but(T=min(case.B, case.S), H=case.B if case.H else 0) if square else case
    component = attention(impl, case)
    expanded = case.with_inputs(mask=np.broadcast_to(case.allowed, (*case.leading, case.T, case.S)).copy())
    short = component(**case.inputs)["output"]
    expect_close(short, case.expected["output"], "output for the short form", factor=impl.factor("attention"))
    expect_close(component(**expanded)["output"], case.expected["output"], "output for the written-out mask")


@verifies("M1.6")
@given(case=attention_cases(masks=("keys", "pairs", "shared"), causal=True, min_keys=2))
def masks_combine_as_allowed_by_all(impl: Subject, case: AttentionCase) -> None:
    """With a mask and causal attention both must allow; the next call starts afresh."""
    component = attention(impl, case)
    weights = weights_of(component, case.inputs)
    expect_zero(weights[~case.visible], "the weight of a key that one of the masks hides")
    expect_close(weights, case.expected["weights"], "weights", factor=2)
    other = case.but(seed=case.seed + 1)
    expect_close(component(**other.inputs)["output"], other.expected["output"], "output for another mask")


@verifies("M1.7")
def no_python_loop(impl: Subject) -> None:
    """The interpreter does the same work whatever the sizes."""
    small, large = (AttentionCase(B=b, T=t, S=t, d_k=4, d_v=4, mask="keys") for b, t in ((2, 6), (16, 48)))
    note_case(f"{small} against {large}", "bytecodes")
    component = attention(impl, small)
    few, many = (python_work(component, case.inputs) for case in (small, large))
    expect(
        many <= 1.5 * few,
        f"{many} bytecodes at (B,T,S)=(16,48,48), {few} at (2,6,6), should be at most 1.5 times",
    )


@verifies("M1.8")
@given(case=attention_cases(causal=False, min_width=8, kinds=("unit", "init")))
def agrees_with_torch(impl: Subject, case: AttentionCase) -> None:
    """Within 1e-5 of F.scaled_dot_product_attention."""
    import torch
    import torch.nn.functional as F

    case = case.but(dtype=impl.dtypes[0])
    q, k, v = (torch.tensor(case.inputs[n]) for n in "qkv")
    mask = torch.tensor(case.allowed) if case.mask != "none" else None
    wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).numpy()
    tolerance = 1e-5 if case.dtype in ("float32", "float64") else float(np.max(case.expected["output"].bound))
    expect_near(attention(impl, case)(**case.inputs)["output"], wanted, tolerance, "output")


@verifies("M1.9")
@given(case=attention_cases(kinds=("unit",), min_keys=2), size=st.sampled_from((1e4, 1e6, -1e4)))
def softmax_is_stable(impl: Subject, case: AttentionCase, size: float) -> None:
    """Finite and right where exp of a score is not."""
    scores = math.sqrt(abs(size) * math.sqrt(case.d_k))
    q = case.inputs["q"] * scores
    k = case.inputs["k"] * math.copysign(scores, size)
    inputs = case.with_inputs(q=q.astype(case.inputs["q"].dtype), k=k.astype(case.inputs["k"].dtype))
    wanted = expected("attention", case.config, {}, inputs)["output"]
    expect_close(attention(impl, case)(**inputs)["output"], wanted, "output", factor=impl.factor("attention"))


@verifies("M1.9")
@given(
    case=attention_cases(kinds=("unit",), masks=("none",), min_keys=2),
    shift=st.sampled_from((30.0, 200.0, -200.0)),
)
def a_common_shift_of_the_scores_changes_nothing(impl: Subject, case: AttentionCase, shift: float) -> None:
    """Adding one vector to every key shifts all scores of a query alike."""
    moved = (case.inputs["k"] + np.asarray(shift, case.inputs["k"].dtype)).astype(case.inputs["k"].dtype)
    inputs = case.with_inputs(k=moved)
    wanted = expected("attention", case.config, {}, inputs)["output"]
    expect_close(attention(impl, case)(**inputs)["output"], wanted, "output")


@verifies("M1.10")
@given(case=attention_cases(kinds=("unit", "saturated"), min_keys=2), copies=st.integers(2, 6))
def scale_is_the_root_of_the_width(impl: Subject, case: AttentionCase, copies: int) -> None:
    """Tiling the features c times equals multiplying Q by sqrt(c)."""
    component = attention(impl, case)
    q, k = case.inputs["q"], case.inputs["k"]
    tiled = case.with_inputs(q=np.concatenate([q] * copies, -1), k=np.concatenate([k] * copies, -1))
    scaled = case.with_inputs(q=(q * math.sqrt(copies)).astype(q.dtype))
    bound = 2 * expected("attention", case.config, {}, tiled)["output"].bound
    wanted = component(**scaled)["output"].astype(np.float64)
    expect_close(component(**tiled)["output"], Expected(wanted, bound), "output for tiled features")


@verifies("M1.11")
@given(case=attention_cases(masks=("keys", "pairs")), way=st.sampled_from(("mask", "length", "causal")))
def blind_queries_give_zeros(impl: Subject, case: AttentionCase, way: str) -> None:
    """Zero output and weights, and the other rows are as they would be."""
    component = attention(impl, case)
    inputs, blind = blinded(case, way)
    seen = component(**inputs)
    expect_finite(seen["output"], "output")
    expect_zero(seen["output"][blind], "the output of a query that sees nothing")
    expect_zero(weights_of(component, inputs)[blind], "a weight of a query that sees nothing")
    wanted = expected("attention", case.config, {}, inputs)["output"]
    expect_close(seen["output"], widened(wanted, 2.0), "output")


def blinded(case: AttentionCase, way: str) -> tuple[dict[str, Any], Array]:
    """Inputs with queries that see nothing, and which they are, (..., T)."""
    inputs = dict(case.inputs)
    shape = (*case.leading, case.T, case.S)
    mask = np.broadcast_to(case.allowed, shape).copy()
    if way == "causal":
        keys = max(1, case.T // 2)
        inputs |= {"k": inputs["k"][..., :keys, :], "v": inputs["v"][..., :keys, :], "causal": True}
        del inputs["mask"]
        visible = np.arange(keys) <= np.arange(case.T)[:, None] + keys - case.T
        return inputs, np.broadcast_to(~visible.any(-1), shape[:-1])
    inputs.pop("causal", None)
    if way == "length":
        mask[0] = False
    else:
        mask[..., case.T // 2, :] = False
    return {**inputs, "mask": mask}, ~mask.any(-1)


@verifies("M1.11a")
@given(
    case=attention_cases(masks=("keys", "pairs"), kinds=("unit",)),
    way=st.sampled_from(("mask", "length", "causal")),
)
def blind_queries_do_not_spoil_gradients(impl: Subject, case: AttentionCase, way: str) -> None:
    """Finite everywhere, zero for the blind queries, right for the others."""
    case = case.but(dtype=impl.dtypes[-1])
    inputs, blind = blinded(case, way)
    seen = attention(impl, case).gradients(inputs, case.cotangents())
    expect_zero(seen.inputs["q"][blind], "the gradient of a query that sees nothing")
    wanted = bounded_gradients("attention", case.config, {}, inputs, case.cotangents())
    expect_gradients(seen, wanted)


@verifies("M1.12")
@given(case=attention_cases(masks=("none", "pairs"), causal=False), order=seeds())
def order_laws_hold(impl: Subject, case: AttentionCase, order: int) -> None:
    """Keys and values may be permuted together, queries with the output."""
    rng = np.random.default_rng(order)
    keys, queries = rng.permutation(case.S), rng.permutation(case.T)
    q, k, v = (case.inputs[n] for n in "qkv")
    moved = {"q": q[..., queries, :], "k": k[..., keys, :], "v": v[..., keys, :]}
    if case.mask == "pairs":
        moved["mask"] = case.allowed[..., queries, :][..., keys]
    wanted = case.expected["output"]
    permuted = Expected(wanted.value[..., queries, :], 2 * wanted.bound[..., queries, :])
    expect_close(attention(impl, case)(**moved)["output"], permuted, "output after a permutation")


@verifies("M1.12")
@given(case=attention_cases(causal=False, kinds=("unit", "saturated", "offset")))
def values_mix_linearly_inside_their_hull(impl: Subject, case: AttentionCase) -> None:
    """Linear in V, between the smallest and largest visible value, and each batch row on its own."""
    component = attention(impl, case)
    seen, bound = component(**case.inputs)["output"], case.expected["output"].bound
    v = case.inputs["v"]
    doubled = component(**case.with_inputs(v=2 * v))["output"]
    expect_close(doubled, Expected(2.0 * seen.astype(np.float64), 4 * bound), "output for doubled values")
    around = np.where(case.visible[..., None], v[..., None, :, :], np.nan).astype(np.float64)
    low, high = np.nanmin(around, -2) - 2 * bound, np.nanmax(around, -2) + 2 * bound
    expect(bool(np.all((seen >= low) & (seen <= high))), "an output lies outside the visible values")
    alone = {
        n: x[:1] if n in "qkv" or (n == "mask" and case.mask != "shared") else x
        for n, x in case.inputs.items()
    }
    expect_close(
        component(**alone)["output"], Expected(seen[:1].astype(np.float64), 2 * bound[:1]), "row 0 alone"
    )


@verifies("M1.13")
@given(case=attention_cases())
def gradients_are_right(impl: Subject, case: AttentionCase) -> None:
    """Against the reference's reverse pass, with random cotangents."""
    case = sharpest(impl, case)
    seen = attention(impl, case).gradients(case.inputs, case.cotangents())
    wanted = bounded_gradients("attention", case.config, {}, case.inputs, case.cotangents())
    expect_gradients(seen, wanted)
    for name in ("k", "v"):
        expect_zero(seen.inputs[name][~case.visible.any(-2)], f"the gradient of a hidden row of {name}")


def sharpest(impl: Subject, case: AttentionCase) -> AttentionCase:
    """The case in the implementation's most exact dtype."""
    return case.but(dtype="float64" if "float64" in impl.dtypes else impl.dtypes[0])


def misfits() -> dict[str, tuple[str, dict[str, Array]]]:
    """Calls that cannot be meant: what is wrong, the argument at fault, the inputs."""
    rng = np.random.default_rng(0)

    def x(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    q, k, v = x(2, 3, 4), x(2, 5, 4), x(2, 5, 6)
    yes = np.ones((2, 3, 5), bool)
    return {
        "q of rank 1": ("q", {"q": x(4), "k": k, "v": v}),
        "k of rank 1": ("k", {"q": q, "k": x(4), "v": v}),
        "q of width 5 and k of width 4": ("k", {"q": x(2, 3, 5), "k": k, "v": v}),
        "q of width 1 and k of width 4": ("k", {"q": x(2, 3, 1), "k": k, "v": v}),
        "a batch of 2 in q and 3 in k": ("k", {"q": q, "k": x(3, 5, 4), "v": x(3, 5, 6)}),
        "a batch of 1 in v only": ("v", {"q": q, "k": k, "v": x(1, 5, 6)}),
        "k of length 5 and v of length 4": ("v", {"q": q, "k": k, "v": x(2, 4, 6)}),
        "k of length 5 and v of length 1": ("v", {"q": q, "k": k, "v": x(2, 1, 6)}),
        "a mask for 4 keys out of 5": ("mask", {"q": q, "k": k, "v": v, "mask": yes[..., :4]}),
        "a mask for a batch of 3": ("mask", {"q": q, "k": k, "v": v, "mask": np.ones((3, 3, 5), bool)}),
        "a mask (B, S) without a query axis": (
            "mask",
            {"q": q, "k": k, "v": v, "mask": np.ones((2, 5), bool)},
        ),
        "no keys": ("k", {"q": q, "k": x(2, 0, 4), "v": x(2, 0, 6)}),
    }


@verifies("M1.14")
def misfits_are_refused(impl: Subject) -> None:
    """An exception, never a silent broadcast."""
    component = impl.build("attention", Config(dtype=impl.dtypes[0]))
    for what, (_, inputs) in misfits().items():
        note_case(what, "refusal")
        expect_refused(lambda inputs=inputs: component.component(**inputs), what)  # type: ignore[misc]


@verifies("M1.14a")
def refusals_name_the_argument(impl: Subject) -> None:
    """A ValueError whose message names what does not fit."""
    component = impl.build("attention", Config(dtype=impl.dtypes[0]))
    for what, (name, inputs) in misfits().items():
        note_case(what, "refusal")
        expect_refused_by_name(lambda inputs=inputs: component.component(**inputs), what, name)  # type: ignore[misc]


@verifies("M1.15", effort=0.5)
@given(case=attention_cases())
def a_call_leaves_no_trace(impl: Subject, case: AttentionCase) -> None:
    """Inputs, memory, random state and flags are as before."""
    expect_no_trace(attention(impl, case), case.inputs)
