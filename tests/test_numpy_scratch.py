"""numpy_scratch against torch's own modules, torch autograd and central differences."""

import numpy as np
import pytest

from attest.contract import Config
from attest.parameters import shapes
from attest_impls.numpy_scratch import NumpyScratch

torch = pytest.importorskip("torch")
F = torch.nn.functional

IMPL = NumpyScratch()
SMALL = Config(d_model=8, num_heads=2, d_ff=12, source_vocab=9, target_vocab=7, max_len=10, dtype="float64",
               num_encoder_layers=2, num_decoder_layers=2)  # fmt: skip


def rng(seed=0):
    return np.random.default_rng(seed)


def randomised(component, seed=1):
    """Random biases and norms too, so that nothing is hidden behind a zero."""
    draw = rng(seed)
    component.load({n: p + 0.3 * draw.normal(size=p.shape) for n, p in component.parameters().items()})
    return component


def tensors(arrays, grad=True):
    return {n: torch.tensor(a, requires_grad=grad and a.dtype.kind == "f") for n, a in arrays.items()}


def check_by_differences(component, inputs, seed=3, count=4):
    """Analytic == central difference along random directions, random cotangents, for every array."""
    draw = rng(seed)
    cotangents = {n: draw.normal(size=o.shape) for n, o in component(**inputs).items()}
    analytic = component.gradients(inputs, cotangents)
    start = component.parameters()

    def objective(inputs, parameters):
        component.load(parameters)
        return sum((cotangents[n] * o).sum() for n, o in component(**inputs).items())

    def along(name, values, evaluate):
        direction = draw.normal(size=values[name].shape)
        step = 1e-6
        ahead, behind = ({**values, name: values[name] + s * direction} for s in (step, -step))
        return direction, (evaluate(ahead) - evaluate(behind)) / (2 * step)

    for name in analytic.inputs:
        direction, numeric = along(name, inputs, lambda x: objective(x, start))
        np.testing.assert_allclose(
            (analytic.inputs[name] * direction).sum(), numeric, rtol=1e-5, atol=1e-6, err_msg=name
        )
    assert set(analytic.parameters) == set(start)
    for name in start:
        direction, numeric = along(name, start, lambda p: objective(inputs, p))
        np.testing.assert_allclose(
            (analytic.parameters[name] * direction).sum(), numeric, rtol=1e-5, atol=1e-6, err_msg=name
        )
    component.load(start)


@pytest.mark.parametrize("operation", ["attention", "qkv_projection", "multi_head_attention"])
def test_names_and_shapes_are_the_canonical_ones(operation):
    for config in (SMALL, SMALL.but(bias=False, norm="pre", tie=True)):
        parameters = getattr(IMPL, operation)(config).parameters()
        assert {n: p.shape for n, p in parameters.items()} == shapes(operation, config)
        assert list(parameters) == list(shapes(operation, config))


def attention_inputs(seed=0, lead=(2, 3), T=4, S=5):
    draw = rng(seed)
    q, k, v = (draw.normal(size=(*lead, *tail)) for tail in ((T, 6), (S, 6), (S, 3)))
    return {"q": q, "k": k, "v": v, "mask": draw.random((*lead, T, S)) < 0.7}


def test_attention_and_its_gradients_equal_torch():
    inputs = attention_inputs()
    inputs["mask"][..., 0] = True
    component, t = IMPL.attention(SMALL), tensors(inputs)
    expected = F.scaled_dot_product_attention(t["q"], t["k"], t["v"], attn_mask=t["mask"])
    np.testing.assert_allclose(component(**inputs)["output"], expected.detach().numpy(), atol=1e-14)
    dy = rng(5).normal(size=expected.shape)
    expected.backward(torch.tensor(dy))
    given = component.gradients(inputs, {"output": dy})
    for name in "qkv":
        np.testing.assert_allclose(given.inputs[name], t[name].grad.numpy(), atol=1e-13)


def test_attention_gradients_by_differences_also_through_the_weights():
    check_by_differences(IMPL.attention(SMALL), attention_inputs())
    causal = {**attention_inputs(T=4, S=4), "causal": True}
    check_by_differences(IMPL.attention(SMALL), causal)


def test_a_query_without_keys_gives_zero_and_finite_gradients():
    inputs = attention_inputs()
    inputs["mask"][0, 0, 1] = False
    component = IMPL.attention(SMALL)
    out = component(**inputs)
    assert not out["output"][0, 0, 1].any()
    assert not out["weights"][0, 0, 1].any()
    check_by_differences(component, inputs)
    tall = {n: x for n, x in attention_inputs(T=5, S=3).items() if n != "mask"} | {"causal": True}
    assert not component(**tall)["output"][..., :2, :].any()


@pytest.mark.parametrize("junk", [1e6, 1e300, np.nan, np.inf])
def test_junk_behind_the_mask_is_inert_forward_and_backward(junk):
    inputs = attention_inputs()
    inputs["mask"][..., 2] = False
    spoiled = {n: x.copy() for n, x in inputs.items()}
    spoiled["k"][..., 2, :] = spoiled["v"][..., 2, :] = junk
    same_everywhere(IMPL.attention(SMALL), inputs, spoiled)
    draw = rng(4)
    inputs = {"query": draw.normal(size=(2, 3, 8)), "key_value": draw.normal(size=(2, 4, 8))}
    inputs["mask"] = np.array([[[True, True, True, False]]])
    spoiled = {n: x.copy() for n, x in inputs.items()}
    spoiled["key_value"][:, 3] = junk
    same_everywhere(randomised(IMPL.multi_head_attention(SMALL)), inputs, spoiled)


def same_everywhere(component, inputs, spoiled):
    out = component(**inputs)
    cotangents = {n: rng(6).normal(size=o.shape) for n, o in out.items()}
    wanted, seen = (component.gradients(x, cotangents) for x in (inputs, spoiled))
    for want, have in ((out, component(**spoiled)), (wanted.inputs, seen.inputs)):
        for name in want:
            np.testing.assert_array_equal(have[name], want[name], err_msg=name)
    for name in wanted.parameters:
        np.testing.assert_allclose(seen.parameters[name], wanted.parameters[name], atol=1e-12, err_msg=name)


def test_a_nan_in_the_future_leaves_the_past_and_one_that_is_seen_shows():
    inputs = {n: x for n, x in attention_inputs(T=4, S=4).items() if n != "mask"} | {"causal": True}
    out = IMPL.attention(SMALL)(**inputs)["output"]
    inputs["v"] = inputs["v"].copy()
    inputs["v"][..., 3, :] = np.nan
    spoiled = IMPL.attention(SMALL)(**inputs)["output"]
    np.testing.assert_array_equal(spoiled[..., :3, :], out[..., :3, :])
    assert np.isnan(spoiled[..., 3, :]).all()


def test_huge_scores_are_finite_and_right():
    q = np.array([[[1e4, 0.0]]])
    k = np.array([[[1e4, 0.0], [0.0, 1.0]]])
    v = np.array([[[2.0], [3.0]]])
    assert IMPL.attention(SMALL)(q=q, k=k, v=v)["output"] == 2.0
    assert IMPL.attention(SMALL)(q=-q, k=k, v=v)["output"] == 3.0


@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_attention_equals_torch(bias):
    config = SMALL.but(bias=bias)
    ours = randomised(IMPL.multi_head_attention(config))
    inputs = {"query": rng(1).normal(size=(2, 3, 8)), "key_value": rng(2).normal(size=(2, 5, 8))}
    p = tensors(ours.parameters())
    theirs = torch.nn.MultiheadAttention(8, 2, bias=bias, batch_first=True, dtype=torch.float64)
    names = ("query", "key", "value")
    weights = {
        "in_proj_weight": torch.cat([p[f"{n}.weight"] for n in names]),
        "out_proj.weight": p["output.weight"],
    }
    if bias:
        weights |= {
            "in_proj_bias": torch.cat([p[f"{n}.bias"] for n in names]),
            "out_proj.bias": p["output.bias"],
        }
    t = tensors(inputs)
    mask = np.array([[True] * 5, [True, True, True, False, False]])
    args = (t["query"], t["key_value"], t["key_value"])
    options = {"key_padding_mask": torch.tensor(~mask), "average_attn_weights": False}
    output, attended = torch.func.functional_call(theirs, weights, args, options)
    inputs["mask"] = mask[:, None]
    out = ours(**inputs)
    np.testing.assert_allclose(out["output"], output.detach().numpy(), atol=1e-13)
    np.testing.assert_allclose(out["weights"], attended.detach().numpy(), atol=1e-13)
    dy = rng(7).normal(size=output.shape)
    output.backward(torch.tensor(dy))
    given = ours.gradients(inputs, {"output": dy})
    for name in ("query", "key_value"):
        np.testing.assert_allclose(given.inputs[name], t[name].grad.numpy(), atol=1e-12)
    for name, tensor in p.items():
        np.testing.assert_allclose(given.parameters[name], tensor.grad.numpy(), atol=1e-12, err_msg=name)


@pytest.mark.parametrize("operation", ["qkv_projection", "multi_head_attention"])
def test_projection_gradients_by_differences(operation):
    inputs = {"x": rng(1).normal(size=(2, 3, 8))}
    if operation == "multi_head_attention":
        inputs = {"query": inputs["x"], "key_value": rng(2).normal(size=(2, 4, 8)),
                  "mask": rng(3).random((2, 1, 4)) < 0.6}  # fmt: skip
    check_by_differences(randomised(getattr(IMPL, operation)(SMALL)), inputs)


def test_masks():
    np.testing.assert_array_equal(IMPL.length_mask(np.array([1, 3]), 3)[:, 0], [[1, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(IMPL.padding_mask(np.array([[4, 5, 9]]), 9), [[[1, 1, 0]]])
    np.testing.assert_array_equal(IMPL.causal_mask(2, 3), [[1, 1, 0], [1, 1, 1]])
    np.testing.assert_array_equal(IMPL.causal_mask(3, 1), [[0], [0], [1]])
