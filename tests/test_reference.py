"""The reference against torch in float64 and hand-worked numbers, and its bounds against float32 runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attest.contract import Config
from attest.milestones.m01_attention.cases.attention import AttentionCase
from attest.milestones.m03_feed_forward_and_embeddings.cases.feed_forward import FeedForwardCase
from attest.reference import ops
from attest.reference.assembly import Parts, oracle_parts
from attest.reference.implementation import ReferenceImplementation
from attest.reference.operations import run
from attest.reference.oracle import expected, expected_gradients, random_parameters
from attest.reference.scope import Scope
from attest.reference.tape import gradients, leaf

torch = pytest.importorskip("torch")
F = torch.nn.functional

SMALL = Config(d_model=8, num_heads=2, d_ff=12, dropout=0.0, dtype="float64")


def rng(seed=0):
    return np.random.default_rng(seed)


def tensor(x, gradient=False):
    return torch.tensor(np.asarray(x), dtype=torch.float64, requires_grad=gradient)


def close(seen, wanted, tolerance=1e-12):
    wanted = wanted.detach().numpy() if isinstance(wanted, torch.Tensor) else wanted
    np.testing.assert_allclose(seen, wanted, rtol=tolerance, atol=tolerance)


OPERATIONS = {
    "matmul": (ops.matmul, torch.matmul, [(2, 3, 4), (4, 5)]),
    "matmul_batched": (ops.matmul, torch.matmul, [(2, 3, 4, 5), (2, 1, 5, 6)]),
    "add": (ops.add, torch.add, [(2, 3, 4), (4,)]),
    "sub": (ops.sub, torch.sub, [(2, 1, 4), (3, 4)]),
    "mul": (ops.mul, torch.mul, [(2, 3, 4), (3, 1)]),
    "softmax": (ops.softmax, lambda a: torch.softmax(a, -1), [(2, 3, 5)]),
    "log_softmax": (ops.log_softmax, lambda a: torch.log_softmax(a, -1), [(2, 3, 5)]),
    "relu": (ops.relu, torch.relu, [(3, 5)]),
    "gelu": (ops.gelu, F.gelu, [(3, 5)]),
    "layer_norm": (
        lambda a, w, b: ops.layer_norm(a, w, b, 1e-5),
        lambda a, w, b: F.layer_norm(a, (5,), w, b, 1e-5),
        [(2, 3, 5), (5,), (5,)],
    ),
    "take": (lambda a: ops.take(a, np.array([[1, 1, 0]])), lambda a: a[torch.tensor([[1, 1, 0]])], [(3, 4)]),
    "reshape": (lambda a: ops.reshape(a, (4, 3)), lambda a: a.reshape(4, 3), [(2, 6)]),
    "swap": (lambda a: ops.swap(a, 0, 2), lambda a: a.transpose(0, 2), [(2, 3, 4)]),
    "index": (lambda a: ops.index(a, (slice(None), [0, 0])), lambda a: a[:, [0, 0]], [(2, 3)]),
    "columns": (lambda a: ops.columns(a, 1, 3), lambda a: a[..., 1:3], [(2, 4)]),
    "concat": (lambda a, b: ops.concat([a, b]), lambda a, b: torch.cat([a, b], -1), [(2, 3), (2, 1)]),
    "stack": (lambda a, b: ops.stack([a, b], 1), lambda a, b: torch.stack([a, b], 1), [(2, 3), (2, 3)]),
    "sum_last": (ops.sum_last, lambda a: a.sum(-1), [(2, 3, 4)]),
    "mean": (ops.mean, torch.mean, [(2, 3, 4)]),
    "scale": (lambda a: ops.scale(a, -0.3), lambda a: -0.3 * a, [(2, 3)]),
    "where": (
        lambda a: ops.where(np.array([True, False]), a, 7.0),
        lambda a: torch.where(torch.tensor([True, False]), a, 7.0),
        [(3, 2)],
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_of_the_tape_has_torchs_value_and_gradient(name):
    ours, theirs, shapes = OPERATIONS[name]
    arrays = [rng(i).normal(size=shape) for i, shape in enumerate(shapes)]
    leaves = [leaf(a, gradient=True) for a in arrays]
    tensors = [tensor(a, gradient=True) for a in arrays]
    seen, wanted = ours(*leaves), theirs(*tensors)
    close(seen.value, wanted)
    cotangent = rng(9).normal(size=seen.shape)
    wanted.backward(tensor(cotangent))
    for g, t in zip(gradients([(seen, cotangent)], leaves), tensors):
        close(g, t.grad)


def test_a_var_used_twice_collects_both_gradients():
    x = leaf([[2.0]], gradient=True)
    y = ops.mul(x, x)
    assert gradients([(ops.add(y, x), np.ones((1, 1)))], [x])[0] == 5.0


def attention_inputs(seed, B=2, T=3, S=5, d=4, d_v=6):
    r = rng(seed)
    return {"q": r.normal(size=(B, T, d)), "k": r.normal(size=(B, S, d)), "v": r.normal(size=(B, S, d_v))}


@pytest.mark.parametrize("masked", [False, True])
def test_attention_and_its_gradients_equal_torch(masked):
    x = attention_inputs(1)
    mask = rng(2).random((2, 3, 5)) < 0.6 if masked else None
    if masked:
        mask[..., 0] = True
    t = {n: tensor(a, gradient=True) for n, a in x.items()}
    wanted = F.scaled_dot_product_attention(
        t["q"], t["k"], t["v"], None if mask is None else torch.tensor(mask)
    )
    close(expected("attention", SMALL, {}, {**x, "mask": mask})["output"].value, wanted)
    cotangent = rng(3).normal(size=wanted.shape)
    wanted.backward(tensor(cotangent))
    found = expected_gradients("attention", SMALL, {}, {**x, "mask": mask}, {"output": cotangent})
    for name in "qkv":
        close(found.inputs[name], t[name].grad)


def test_attention_by_hand():
    # scores 1*2/1 and 1*0/1: weights 1/(1+e^-2) and the rest
    x = {"q": [[[1.0]]], "k": [[[2.0], [0.0]]], "v": [[[10.0, 1.0], [20.0, 3.0]]]}
    first = 1 / (1 + math.exp(-2))
    seen = expected("attention", SMALL, {}, x)
    close(seen["weights"].value, [[[first, 1 - first]]])
    close(seen["output"].value, [[[20 - 10 * first, 3 - 2 * first]]])


def test_a_blind_query_gets_zeros_and_finite_gradients():
    x = attention_inputs(4, T=5, S=3)
    call = ReferenceImplementation().attention(SMALL)
    seen = call(**x, causal=True)
    assert not seen["output"][:, :2].any()
    assert not seen["weights"][:, :2].any()
    assert seen["weights"][:, 2, 0].tolist() == [1.0, 1.0]
    found = call.gradients({**x, "causal": True}, {"output": np.ones((2, 5, 6))})
    assert all(np.isfinite(g).all() for g in found.inputs.values())


@pytest.mark.parametrize("junk", [1e6, 1e300, math.nan, math.inf])
def test_junk_behind_the_mask_is_inert(junk):
    x = attention_inputs(5)
    mask = np.array([True, True, True, False, False])
    spoiled = {**x, "k": x["k"].copy(), "v": x["v"].copy()}
    spoiled["k"][:, 3:] = spoiled["v"][:, 3:] = junk
    call = ReferenceImplementation().attention(SMALL)
    np.testing.assert_array_equal(call(**x, mask=mask)["output"], call(**spoiled, mask=mask)["output"])
    assert np.isfinite(expected("attention", SMALL, {}, {**spoiled, "mask": mask})["output"].bound).all()


def multi_head_of_torch(p):
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    load_attention(module, p, "")
    return module


def load_attention(module, p, prefix):
    with torch.no_grad():
        packed = [p[f"{prefix}{n}.weight"] for n in ("query", "key", "value")]
        module.in_proj_weight.copy_(tensor(np.concatenate(packed)))
        packed = [p[f"{prefix}{n}.bias"] for n in ("query", "key", "value")]
        module.in_proj_bias.copy_(tensor(np.concatenate(packed)))
        module.out_proj.weight.copy_(tensor(p[f"{prefix}output.weight"]))
        module.out_proj.bias.copy_(tensor(p[f"{prefix}output.bias"]))


def test_multi_head_attention_equals_torch():
    p = random_parameters("multi_head_attention", SMALL, rng(6))
    query, key_value = rng(7).normal(size=(3, 4, 8)), rng(8).normal(size=(3, 5, 8))
    mask = rng(9).random((3, 1, 5)) < 0.7
    mask[..., 0] = True
    seen = expected("multi_head_attention", SMALL, p, {"query": query, "key_value": key_value, "mask": mask})
    output, weights = multi_head_of_torch(p)(
        tensor(query),
        tensor(key_value),
        tensor(key_value),
        key_padding_mask=torch.tensor(~mask[:, 0]),
        average_attn_weights=False,
    )
    close(seen["output"].value, output)
    close(seen["weights"].value, weights)


def test_the_loop_over_heads_equals_the_split_one():
    p = Scope({n: leaf(x) for n, x in random_parameters("multi_head_attention", SMALL, rng(6)).items()})
    x = {"query": leaf(rng(7).normal(size=(3, 4, 8))), "key_value": leaf(rng(8).normal(size=(3, 5, 8)))}
    loop = run(oracle_parts(SMALL), "multi_head_attention", p, x)
    split = run(Parts(SMALL), "multi_head_attention", p, x)
    for name in ("output", "weights"):
        close(loop[name].value, split[name].value)


def test_a_mask_may_leave_out_rows_and_batch_but_not_more():
    call = ReferenceImplementation().multi_head_attention(SMALL)
    x = {"query": np.zeros((2, 3, 8)), "key_value": np.zeros((2, 5, 8))}
    for shape in [(3, 5), (1, 1, 5), (2, 1, 5), (1, 3, 5)]:
        assert call(**x, mask=np.ones(shape, dtype=bool))["output"].shape == (2, 3, 8)
    for shape in [(5,), (2, 5), (2, 2, 3, 5), (3, 1, 5), (2, 1, 1)]:
        with pytest.raises(ValueError, match="mask"):
            call(**x, mask=np.ones(shape, dtype=bool))


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="num_heads=3 does not divide d_model=8; choose a divisor of 8"):
        ReferenceImplementation().multi_head_attention(SMALL.but(num_heads=3))


def test_masks():
    reference = ReferenceImplementation()
    assert reference.length_mask(np.array([1, 3]), 3).tolist() == [[[True, False, False]], [[True] * 3]]
    assert reference.padding_mask(np.array([[4, 7, 7]]), 7).tolist() == [[[True, False, False]]]
    assert reference.causal_mask(2, 3).tolist() == [[True, True, False], [True, True, True]]


def worst_ratio(operation, config, inputs, parameters, seen, output="output"):
    wanted = expected(operation, config, parameters, inputs)[output]
    return float((np.abs(seen - wanted.value) / (wanted.bound / 8.0)).max())


@pytest.mark.parametrize(("other", "may_change_places"), [(1004.0, True), (500.0, False)])
def test_scores_that_rounding_can_exchange_may_exchange_their_values(other, may_change_places):
    """At 1e6 numbers of bfloat16 are 4096 apart; exp(-4000) is zero, so the weights alone do not tell."""
    inputs = {
        "q": np.full((1, 1, 1), 1000.0),
        "k": np.array([[[1000.0], [other]]]),
        "v": np.array([[[1.0], [-1.0]]]),
    }
    found = expected("attention", Config(dtype="bfloat16"), {}, inputs)["output"]
    assert bool(found.bound.max() >= 2.0) is may_change_places
    assert may_change_places or found.bound.max() < 0.3


def test_float32_attention_stays_well_inside_the_bound():
    worst = 0.0
    for seed in range(300):
        r = rng(seed)
        B, T, S, d = (int(n) for n in r.integers(1, [4, 17, 17, 16]))
        size = float(r.choice([1e-3, 1.0, 4.0, 30.0]))
        shift = float(r.choice([0.0, 0.0, 20.0]))
        x = {
            n: a.astype(np.float32) * np.float32(size) + np.float32(shift)
            for n, a in attention_inputs(seed, B, T, S, d).items()
        }
        q, k, v = (torch.tensor(x[n]) for n in "qkv")
        seen = (torch.softmax(q @ k.mT / math.sqrt(d), -1) @ v).double().numpy()
        worst = max(worst, worst_ratio("attention", SMALL.but(dtype="float32"), x, {}, seen))
    assert 0.1 < worst < 4


def load_layer(module, p, attentions):
    for theirs, ours in attentions.items():
        load_attention(getattr(module, theirs), p, f"{ours}.")
    names = {"linear1": "feed_forward.inner", "linear2": "feed_forward.outer"}
    names |= {f"norm{i + 1}": f"norm{i}" for i in range(len(attentions) + 1)}
    with torch.no_grad():
        for theirs, ours in names.items():
            for kind in ("weight", "bias"):
                getattr(getattr(module, theirs), kind).copy_(tensor(p[f"{ours}.{kind}"]))


def torch_layer(kind, p, config):
    module = kind(
        config.d_model,
        config.num_heads,
        config.d_ff,
        dropout=0.0,
        activation=config.activation,
        batch_first=True,
        norm_first=config.norm == "pre",
        dtype=torch.float64,
    )
    attentions = {"self_attn": "self_attention"}
    if kind is torch.nn.TransformerDecoderLayer:
        attentions["multihead_attn"] = "cross_attention"
    load_layer(module, p, attentions)
    return module


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_encoder_layer_and_its_gradients_equal_torch(norm, activation):
    config = SMALL.but(norm=norm, activation=activation)
    p = random_parameters("encoder_layer", config, rng(10))
    x, cotangent = rng(11).normal(size=(2, 2, 4, 8))
    mask = np.array([[[True, True, True, False]], [[True, True, False, False]]])
    module = torch_layer(torch.nn.TransformerEncoderLayer, p, config)
    t = tensor(x, gradient=True)
    wanted = module(t, src_key_padding_mask=torch.tensor(~mask[:, 0]))
    close(expected("encoder_layer", config, p, {"x": x, "mask": mask})["output"].value, wanted)
    wanted.backward(tensor(cotangent))
    found = expected_gradients("encoder_layer", config, p, {"x": x, "mask": mask}, {"output": cotangent})
    close(found.inputs["x"], t.grad)
    close(found.parameters["feed_forward.inner.weight"], module.linear1.weight.grad)
    close(found.parameters["self_attention.key.weight"], module.self_attn.in_proj_weight.grad[8:16])
    close(found.parameters["norm0.weight"], module.norm1.weight.grad)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_decoder_layer_equals_torch(norm):
    config = SMALL.but(norm=norm)
    p = random_parameters("decoder_layer", config, rng(12))
    x, memory = rng(13).normal(size=(2, 3, 8)), rng(14).normal(size=(2, 5, 8))
    memory_mask = np.array([[[True] * 5], [[True, True, False, False, False]]])
    wanted = torch_layer(torch.nn.TransformerDecoderLayer, p, config)(
        tensor(x),
        tensor(memory),
        tgt_mask=torch.triu(torch.ones(3, 3, dtype=torch.bool), 1),
        memory_key_padding_mask=torch.tensor(~memory_mask[:, 0]),
    )
    seen = expected("decoder_layer", config, p, {"x": x, "memory": memory, "memory_mask": memory_mask})
    close(seen["output"].value, wanted)


def test_positions_by_hand():
    table = Parts(SMALL.but(d_model=3, max_len=5)).positions.buffer()
    assert table[0].tolist() == [0.0, 1.0, 0.0]
    close(table[2], [math.sin(2), math.cos(2), math.sin(2 / 10000 ** (2 / 3))])


def test_input_embedding_by_hand_and_the_pad_row_is_not_learned():
    config = SMALL.but(d_model=4, source_vocab=3, max_len=2)
    table = np.arange(12.0).reshape(3, 4)
    seen = expected("input_embedding", config, {"weight": table}, {"ids": np.array([[2, 0]])})["output"].value
    close(seen[0, 0], 2 * table[2] + [0, 1, 0, 1])
    close(seen[0, 1], 2 * table[0] + [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)])
    ids = {"ids": np.array([[2, 2, 0]])}
    found = expected_gradients(
        "token_embedding", config, {"weight": table}, ids, {"output": np.ones((1, 3, 4))}
    )
    assert found.parameters["weight"].tolist() == [[0] * 4, [0] * 4, [2] * 4]


def test_float32_layers_stay_well_inside_the_bound():
    worst = 0.0
    for seed in range(60):
        r = rng(seed)
        config = SMALL.but(
            dtype="float32",
            norm=str(r.choice(["pre", "post"])),
            activation=str(r.choice(["relu", "gelu"])),
        )
        p = random_parameters("encoder_layer", config, r, regime=str(r.choice(["unit", "saturated"])))
        size, shift = float(r.choice([1e-3, 1.0, 30.0])), float(r.choice([0.0, 20.0]))
        x = (r.normal(size=(2, int(r.integers(1, 12)), 8)) * size + shift).astype(np.float32)
        module = torch_layer(torch.nn.TransformerEncoderLayer, p, config).float()
        seen = module(torch.tensor(x)).detach().double().numpy()
        worst = max(worst, worst_ratio("encoder_layer", config, {"x": x}, p, seen))
    assert 0.1 < worst < 4


def test_dropout_draws_from_the_seed_alone_and_rescales():
    config = SMALL.but(dropout=0.5, norm="pre", d_ff=4)
    layer = ReferenceImplementation().encoder_layer(config)
    layer.load(
        {n: np.zeros_like(v) for n, v in layer.parameters().items()} | {"feed_forward.outer.bias": np.ones(8)}
    )
    x = np.zeros((4, 5, 8))
    layer.train(3)
    first, second = layer(x=x)["output"], layer(x=x)["output"]
    layer.train(4)
    other = layer(x=x)["output"]
    layer.eval()
    assert set(np.unique(first)) == {0.0, 2.0}
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()
    np.testing.assert_array_equal(layer(x=x)["output"], np.ones_like(x))


def textbook_softmax_gradient(case):
    """Float64 gradient of q by autograd through subtract the maximum, exp, divide."""
    q, k, v = (tensor(case.inputs[name], gradient=True) for name in "qkv")
    scores = q @ k.mT / math.sqrt(case.d_k)
    raised = torch.exp(scores - scores.max(-1, keepdim=True).values)
    (raised / raised.sum(-1, keepdim=True) @ v).backward(tensor(case.cotangents()["output"]))
    return q.grad.numpy()


@pytest.mark.skipif(np.finfo(np.longdouble).eps >= 2.0**-52, reason="long double is float64 on this machine")
def test_a_gradient_in_float64_is_not_refused_for_being_more_exact_than_float64():
    for seed in range(100):
        case = AttentionCase(regime="offset", dtype="float64", S=3, d_v=5, seed=seed)
        wanted = case.gradients_for()["q"]
        assert np.all(np.abs(textbook_softmax_gradient(case) - wanted.value) <= wanted.bound), case


@pytest.mark.parametrize("seed", [10429, 13650, 15820])
def test_the_gradient_of_a_bias_may_be_off_by_the_roundings_of_its_sum(seed):
    case = FeedForwardCase(regime="tiny", B=4, T=9, D=1, d_ff=1, seed=seed)  # 36 numbers that nearly cancel
    given = case.cotangents()["output"]
    summed = torch.tensor(given).sum((0, 1)).numpy()
    wanted = case.gradients_for()["outer.bias"]
    assert np.all(np.abs(summed - wanted.value) <= wanted.bound)
    assert wanted.bound < 1e-3 * np.abs(given).sum()


@pytest.mark.parametrize(("dtype", "room"), [("bfloat16", True), ("float32", False)])
def test_the_bound_of_weights_in_a_narrow_dtype_leaves_room_for_an_exchange(dtype, room):
    """The case in which bfloat16 exchanges the two largest of nine weights; float32 has no such excuse."""
    rng = np.random.default_rng(4277)
    q, k = 30 * rng.standard_normal((1, 1, 11)), 30 * rng.standard_normal((1, 9, 11))
    k[0, 1] = k[0, 0] * (1 + 2.0**-9)  # two keys that agree to bfloat16, with scores far above the others
    q[0, 0] = k[0, 0]
    inputs = {name: x.astype(np.float32) for name, x in {"q": q, "k": k, "v": k}.items()}
    weights = expected("attention", Config(dtype=dtype), {}, inputs)["weights"]
    assert bool(weights.bound[0, 0, 0] > 0.9) is room
