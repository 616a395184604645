"""numpy_scratch from attention to the stacks, against torch and central differences."""

import math

import numpy as np
import pytest

from attest.contract import OPERATIONS, Form
from attest.contract.parameters import shapes
from attest_impls.numpy_scratch.activation import ACTIVATIONS, erf
from scratch_cases import (
    IMPL,
    SIMPLE,
    SMALL,
    attention_inputs,
    block_inputs,
    check_by_differences,
    layer_weights,
    randomised,
    rng,
    tensors,
)

torch = pytest.importorskip("torch")
F = torch.nn.functional


WITHOUT = (Form.FUNCTION, Form.TRAINER, Form.SCHEDULE, Form.CLIPPING)  # no parameters of their own
OFFERED = [n for n in OPERATIONS if hasattr(IMPL, n) and OPERATIONS[n].form not in WITHOUT]


@pytest.mark.parametrize("operation", [n for n in OFFERED if n != "loss"])
def test_names_and_shapes_are_the_canonical_ones(operation):
    for config in (SMALL, SMALL.but(bias=False, norm="pre", tie=True)):
        parameters = getattr(IMPL, operation)(config).parameters()
        assert {n: p.shape for n, p in parameters.items()} == shapes(operation, config)
        assert list(parameters) == list(shapes(operation, config))


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


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("operation", ["encoder_layer", "decoder_layer"])
def test_layers_and_their_gradients_equal_torch(operation, norm, activation):
    config = SMALL.but(norm=norm, activation=activation)
    ours, inputs = randomised(getattr(IMPL, operation)(config)), block_inputs(operation)
    kind = torch.nn.TransformerEncoderLayer if "memory" not in inputs else torch.nn.TransformerDecoderLayer
    theirs = kind(8, 2, 12, 0.0, activation, batch_first=True, norm_first=norm == "pre", dtype=torch.float64)
    p, t = tensors(ours.parameters()), tensors(inputs)
    if "memory" in inputs:
        blocked = ~torch.tensor(IMPL.causal_mask(4, 4))
        options = {"tgt_mask": blocked, "memory_key_padding_mask": ~t["memory_mask"][:, 0]}
        args = (t["x"], t["memory"])
    else:
        args, options = (t["x"],), {"src_key_padding_mask": ~t["mask"][:, 0]}
    expected = torch.func.functional_call(theirs, layer_weights(p, "", ""), args, options)
    np.testing.assert_allclose(ours(**inputs)["output"], expected.detach().numpy(), atol=1e-12)
    dy = rng(7).normal(size=expected.shape)
    expected.backward(torch.tensor(dy))
    given = ours.gradients(inputs, {"output": dy})
    for name, gradient in (given.inputs | given.parameters).items():
        tensor = t[name] if name in t else p[name]
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), atol=1e-11, err_msg=name)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("operation", ["encoder", "decoder"])
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_stacks_by_differences_also_with_dropout(operation, norm, mode):
    component = randomised(getattr(IMPL, operation)(SMALL.but(norm=norm, activation="gelu", dropout=0.3)))
    if mode == "train":
        component.train(5)
    inputs = block_inputs(operation)
    inputs["x"] = inputs["x"][:, :4]
    if "mask" in inputs:
        inputs["mask"] = inputs["mask"][..., :4]
    check_by_differences(component, inputs)


@pytest.mark.parametrize("operation", SIMPLE)
def test_simple_operations_by_differences(operation):
    component = randomised(getattr(IMPL, operation)(SMALL.but(activation="gelu")))
    check_by_differences(component, SIMPLE[operation])
    component.train(2)
    check_by_differences(component, SIMPLE[operation])


def test_the_padding_row_starts_at_zero_and_learns_nothing_from_lookups():
    component = IMPL.token_embedding(SMALL.but(pad_id=4))
    assert not component.parameters()["weight"][4].any()
    gradient = component.gradients({"ids": np.array([[4, 5]])}, {"output": np.ones((1, 2, 8))})
    assert not gradient.parameters["weight"][4].any()
    assert (gradient.parameters["weight"][5] == 1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_gelu_and_relu_equal_torch(dtype):
    x = np.linspace(-9, 9, 4001, dtype=dtype)
    eps = np.finfo(dtype).eps
    for name in ("relu", "gelu"):
        layer = ACTIVATIONS[name]()
        t = torch.tensor(x, requires_grad=True)
        y = getattr(F, name)(t)
        y.sum().backward()
        output, cache = layer.forward(x)
        slope = layer.backward(np.ones_like(x), cache)
        assert output.dtype == slope.dtype == x.dtype
        np.testing.assert_allclose(output, y.detach().numpy(), rtol=0, atol=9 * eps)
        np.testing.assert_allclose(slope, t.grad.numpy(), rtol=0, atol=9 * eps)


def test_erf_equals_that_of_the_standard_library():
    x = np.linspace(-7, 7, 5001)
    np.testing.assert_allclose(erf(x), [math.erf(value) for value in x], rtol=0, atol=2.3e-16)


@pytest.mark.parametrize("width", [1, 5, 8])
def test_positions_are_the_papers(width):
    table = IMPL.positional_encoding(SMALL.but(d_model=width)).buffers()["positions"]
    for p in range(10):
        for c in range(width):
            angle = p / 10000 ** ((c - c % 2) / width)
            assert abs(table[p, c] - (math.cos(angle) if c % 2 else math.sin(angle))) < 1e-15


def test_layer_norm_equals_torch_far_from_zero():
    x = rng(1).normal(size=(2, 3, 8)) + 1e4
    ours = randomised(IMPL.layer_norm(SMALL))
    p = tensors(ours.parameters())
    expected = F.layer_norm(torch.tensor(x), (8,), p["weight"], p["bias"], SMALL.norm_eps).detach().numpy()
    np.testing.assert_allclose(ours(x=x)["output"], expected, atol=1e-9)
    assert np.isfinite(ours(x=np.full((1, 1, 8), 7.0))["output"]).all()


def test_dropout_is_inverted_repeatable_and_off_in_eval():
    config = SMALL.but(norm="pre", dropout=0.25)
    layer, x = IMPL.encoder_layer(config), rng(1).normal(size=(16, 20, 8))
    zeros = {n: np.zeros_like(p) for n, p in layer.parameters().items()}
    layer.load(zeros | {"feed_forward.outer.bias": np.ones(8)})
    np.testing.assert_array_equal(layer(x=x)["output"], x + 1)
    layer.train(3)
    first, again = layer(x=x)["output"], layer(x=x)["output"]
    np.testing.assert_array_equal(first, again)
    added = np.round(first - x, 12)
    assert set(np.unique(added)) == {0.0, round(4 / 3, 12)}
    assert abs((added == 0).mean() - 0.25) < 0.05
    layer.train(4)
    assert (layer(x=x)["output"] != first).any()
    layer.eval()
    np.testing.assert_array_equal(layer(x=x)["output"], x + 1)
