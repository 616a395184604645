"""The logarithm of a sum of exponentials, packed documents, and backends."""

import re
from pathlib import Path

import numpy as np
import pytest

from attest.boundary import JudgedImplementation
from attest.contract import Config
from attest.judging.property import load_properties, run_property
from attest.milestones.m08_attention_variants.defects.backends import SeveralBackends, backend_ignores_window
from attest.outcomes import Violation
from attest.reference import ops
from attest.reference.implementation import ReferenceImplementation
from attest.reference.oracle import EPSILON, expected
from attest.reference.tape import bound, gradients, leaf
from attest.registry import load, parse_request
from attest_impls.numpy_scratch import NumpyScratch

FOREIGN = Path(__file__).parent / "foreign"
MODEL = Config(d_model=8, num_heads=2, num_decoder_layers=1, target_vocab=7, max_len=16, dtype="float64")


def exact(x, allowed=None):
    """In long double."""
    wide = np.asarray(x, np.longdouble)
    wide = wide if allowed is None else np.where(allowed, wide, -np.inf)
    top = wide.max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return (
            np.where(np.isneginf(top), 0, top)
            + np.log(np.exp(wide - np.where(np.isneginf(top), 0, top)).sum(-1, keepdims=True))
        )[..., 0]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bound_of_log_sum_exp_holds_for_straight_code_and_is_not_wide(dtype, scale):
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(50):
        x = (rng.standard_normal((4, 17)) * scale).astype(dtype)
        found = ops.log_sum_exp(leaf(x, eps=EPSILON[dtype]))
        top = x.max(-1, keepdims=True)
        straight = top[:, 0] + np.log(np.exp(x - top).sum(-1, dtype=dtype))
        worst = max(worst, float((np.abs(straight - exact(x)) / bound(found)).max()))
        np.testing.assert_allclose(found.value, exact(x).astype(float), rtol=1e-14)
    assert 0.005 < worst < 1


def test_nothing_seen_gives_minus_infinity_and_no_gradient():
    x = leaf(np.array([[1.0, 2.0], [3.0, 4.0]]), gradient=True)
    allowed = np.array([[True, True], [False, False]])
    with np.errstate(divide="ignore"):
        found = ops.log_sum_exp(x, allowed)
    assert found.value[1] == -np.inf
    (g,) = gradients([(found, np.ones(2))], [x])
    np.testing.assert_allclose(g, [[1 / (1 + np.e), np.e / (1 + np.e)], [0, 0]])


def test_the_gradient_of_log_sum_exp_is_its_difference_quotient():
    rng = np.random.default_rng(1)
    values, step = rng.standard_normal((3, 5)), 1e-6
    x = leaf(values, gradient=True)
    (g,) = gradients([(ops.log_sum_exp(x), np.ones(3))], [x])
    for i in np.ndindex(3, 5):
        moved = [values.copy() for _ in range(2)]
        moved[0][i] += step
        moved[1][i] -= step
        slope = (exact(moved[0]).sum() - exact(moved[1]).sum()) / (2 * step)
        assert g[i] == pytest.approx(float(slope), abs=1e-8)


def test_packed_documents_that_do_not_fit_are_refused_in_one_sentence():
    model = ReferenceImplementation().language_model(MODEL)
    with pytest.raises(ValueError, match="lengths sum to 5 in a row of 4 ids; give shorter documents"):
        model.packed(ids=np.ones((1, 4), int), lengths=np.array([[3, 2]]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_kv_heads": 3}, "num_kv_heads=3 does not divide num_heads=4; choose a divisor of 4"),
        ({"num_kv_heads": 0}, "num_kv_heads=0 is not a positive integer; give 1 or more"),
        ({"window": 0}, "window=0 is not a positive integer; give 1 or more"),
        ({"positions": "rope"}, "positions='rope' is unknown; choose one of sinusoidal, learned, rotary"),
        (
            {"positions": "rotary", "head_width": 3},
            "rotary_fraction=1.0 of a head of width 3 is no even number",
        ),
        ({"positions": "rotary", "rotary_fraction": 1.5}, "rotary_fraction=1.5 is outside (0, 1]; give 1"),
        ({"positions": "relative", "relative_buckets": 2}, "relative_buckets=2 is below 4; give two or more"),
        (
            {"positions": "relative", "relative_distance": 16},
            "relative_distance=16 is not above half of relative_buckets=32; give 17 or more",
        ),
    ],
)
def test_numpy_scratch_refuses_configs_that_make_no_sense_in_one_sentence(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        NumpyScratch().self_attention(Config(d_model=16, num_heads=4, **changes))


@pytest.mark.parametrize(
    ("changes", "ids", "lengths", "message"),
    [
        (
            {},
            4,
            [[3, 2]],
            "lengths=[[3, 2]] is negative, or sums to more than the 4 ids of a row; give shorter",
        ),
        ({}, 4, [[-1, 2]], "lengths=[[-1, 2]] is negative, or sums to more than the 4 ids of a row"),
        ({}, 4, [3], "lengths.shape=(1,) is not (1, documents) integers; give a row each"),
        (
            {"positions": "learned", "max_len": 2},
            4,
            [[3, 1]],
            "length of lengths=3 is beyond max_len=2; shorten",
        ),
    ],
)
def test_numpy_scratch_refuses_documents_that_do_not_fit(changes, ids, lengths, message):
    model = NumpyScratch().language_model(MODEL.but(**changes))
    with pytest.raises(ValueError, match=re.escape(message)):
        model.packed(ids=np.ones((1, ids), int), lengths=np.array(lengths))


def test_more_documents_than_positions_are_packed():
    model = ReferenceImplementation().language_model(MODEL.but(positions="learned", max_len=2))
    found = model.packed(ids=np.full((1, 5), 3), lengths=np.array([[1, 2, 1, 1]]))
    np.testing.assert_allclose(found["logits"][0, 0], found["logits"][0, 4], atol=1e-12)
    with pytest.raises(
        ValueError, match="a document length=3 exceeds max_len=2; shorten it or raise max_len"
    ):
        model.packed(ids=np.full((1, 5), 3), lengths=np.array([[3, 2]]))


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi", "relative"])
def test_numpy_scratch_and_the_reference_pack_alike(positions):
    config = MODEL.but(positions=positions, max_len=3, window=2)
    ids, lengths = np.array([[3, 4, 5, 6, 3, 4, 0], [5, 5, 3, 4, 6, 3, 3]]), np.array([[3, 0, 3], [1, 3, 3]])
    ours, reference = NumpyScratch().language_model(config), ReferenceImplementation().language_model(config)
    reference.load(ours.parameters())
    seen, wanted = (model.packed(ids=ids, lengths=lengths) for model in (ours, reference))
    np.testing.assert_allclose(seen["logits"][0, :6], wanted["logits"][0, :6], atol=1e-12)
    np.testing.assert_allclose(seen["logits"][1], wanted["logits"][1], atol=1e-12)
    np.testing.assert_allclose(seen["loss"], wanted["loss"], atol=1e-12)


def test_a_row_of_padding_has_no_loss():
    model = ReferenceImplementation().language_model(MODEL)
    assert model.packed(ids=np.zeros((1, 4), int), lengths=np.array([[0]]))["loss"] == 0


@pytest.mark.parametrize(
    ("operation", "changes", "message"),
    [
        ("self_attention", {"num_heads": 4, "num_kv_heads": 3}, "num_kv_heads=3 does not divide num_heads=4"),
        ("self_attention", {"num_heads": 4, "window": 0}, "window=0 must be an integer of at least 1"),
        ("chunked_attention", {"chunk": 0}, "chunk=0 must be an integer of at least 1"),
        ("block_sparse_attention", {"block": 2.0}, "block=2.0 must be an integer of at least 1"),
        ("relative_bias", {"relative_buckets": 3}, "relative_buckets=3 must be at least 4; give two or more"),
        (
            "relative_bias",
            {"relative_distance": 16},
            "relative_distance=16 must be above half of relative_buckets=32; use 17 or more",
        ),
    ],
)
def test_configs_that_make_no_sense_are_refused_in_one_sentence(operation, changes, message):
    with pytest.raises(ValueError, match=message):
        getattr(ReferenceImplementation(), operation)(Config(d_model=8, **{"num_heads": 2, **changes}))


def test_blocks_of_another_shape_are_refused_in_one_sentence():
    component = ReferenceImplementation().block_sparse_attention(Config(block=2))
    q = np.ones((1, 2, 5, 3), np.float32)
    with pytest.raises(ValueError, match=r"blocks=\(2, 3, 2\) must be \(2 or 1, 3, 3\) for blocks of 2"):
        component(q=q, k=q, v=q, blocks=np.ones((2, 3, 2), bool))


def property_named(criterion, name):
    return next(p for p in load_properties()[criterion] if p.name == name)


def test_a_property_runs_on_every_backend_and_says_which_one_failed():
    windows = property_named("M8.4", "windowed_attention_equals_its_formula")
    run_property(windows, JudgedImplementation(SeveralBackends()), profile="quick", seed=0)
    with pytest.raises(Violation) as caught:
        run_property(windows, JudgedImplementation(backend_ignores_window()), profile="quick", seed=0)
    assert caught.value.seen.endswith("(backend fused)")


def test_an_option_of_the_run_chooses_one_backend():
    implementation = backend_ignores_window()
    implementation.options = (("backend", "eager"),)
    impl = JudgedImplementation(implementation)
    assert impl.backends == ("eager",)
    windows = property_named("M8.4", "windowed_attention_equals_its_formula")
    run_property(windows, impl, profile="quick", seed=0)


def test_a_capped_score_is_bent_before_the_mask():
    config = Config(d_model=2, num_heads=1, bias=False, score_cap=1.5, dtype="float64")
    one = np.eye(2)
    parameters = {f"{name}.weight": one for name in ("query", "key", "value", "output")}
    x = np.array([[[3.0, 0.0], [0.0, 4.0]]])
    seen = expected("self_attention", config, parameters, {"x": x})["output"].value
    scores = 1.5 * np.tanh((x[0] @ x[0].T) / np.sqrt(2) / 1.5)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(seen[0], weights @ x[0])


def test_a_sink_takes_its_share_of_the_weights():
    """Two keys with scores of 0 beside a sink of log 2: each has a quarter."""
    config = Config(d_model=2, num_heads=2, bias=False, sinks=True, dtype="float64")
    one, none = np.eye(2), np.zeros((2, 2))
    parameters = {"query.weight": none, "key.weight": none, "value.weight": one, "output.weight": one}
    parameters["sinks.weight"] = np.log([2.0, 1.0])
    x = np.array([[[3.0, 6.0], [1.0, 3.0]]])
    seen = expected("self_attention", config, parameters, {"x": x})["output"].value
    np.testing.assert_allclose(seen[0], [[1.0, 3.0], [1.0, 3.0]])


def test_a_two_sided_window_counts_the_query_on_either_side():
    config = Config(d_model=1, num_heads=1, bias=False, window=2, window_sides="both", dtype="float64")
    parameters = {f"{name}.weight": np.zeros((1, 1)) for name in ("query", "key")}
    parameters |= {f"{name}.weight": np.ones((1, 1)) for name in ("value", "output")}
    x = np.array([[[1.0], [2.0], [6.0], [10.0]]])
    for causal, wanted in ((False, [1.5, 3.0, 6.0, 8.0]), (True, [1.0, 1.5, 4.0, 8.0])):
        seen = expected("self_attention", config, parameters, {"x": x, "causal": causal})["output"].value
        np.testing.assert_allclose(seen[0, :, 0], wanted)


@pytest.mark.parametrize(
    ("criterion", "name"),
    [
        ("M8.1", "grouped_heads_are_repeated_key_heads"),
        ("M8.4", "a_key_is_seen_for_a_window_and_no_longer"),
        ("M8.8", "parts_of_the_keys_merge"),
        ("M8.11", "blocks_equal_their_dense_mask"),
    ],
)
def test_flex_attention_passes_through_the_public_door(criterion, name):
    pytest.importorskip("torch")
    (torch_flex,) = load(parse_request(str(FOREIGN / "torch_flex.py")))
    run_property(property_named(criterion, name), JudgedImplementation(torch_flex), profile="quick", seed=0)


def test_flex_attention_without_a_compiler_saves_no_memory():
    """It makes all scores, whatever the block: M8.9 sees them in torch's allocator."""
    pytest.importorskip("torch")
    (torch_flex,) = load(parse_request(str(FOREIGN / "torch_flex.py")))
    (memory,) = load_properties()["M8.9"]
    with pytest.raises(Violation, match=r"bytes in blocks of 64, all scores are 2,097,152"):
        run_property(memory, JudgedImplementation(torch_flex), profile="quick", seed=0)
