"""The reference's positions against derivations that share no code with it."""

import math

import numpy as np
import pytest

from attest.contract import OPERATIONS, Config
from attest.milestones.m07_positions.cases.self_attention import SelfAttentionCase
from attest.milestones.m07_positions.checks import slopes_of
from attest.reference import ops
from attest.reference.implementation import ReferenceImplementation
from attest.reference.oracle import expected
from attest.reference.parts.relative_positions import relative_buckets
from attest.reference.tape import leaf
from attest.reference.validation import refuse_config

POSITIONS = np.array([[0, 1, 5, 257, 4000], [3, 2, 131071, 0, 9]])


def turned(x, positions, base, pairing, fraction):
    """Each pair a complex number, times e^(i angle)."""
    r = round(x.shape[-1] * fraction)
    angles = positions[:, None, :, None] * base ** (-np.arange(0, r, 2) / r)
    first, second = (
        (x[..., 0:r:2], x[..., 1:r:2]) if pairing == "interleaved" else (x[..., : r // 2], x[..., r // 2 : r])
    )
    spun = (first + 1j * second) * np.exp(1j * angles)
    made = x.copy()
    if pairing == "interleaved":
        made[..., 0:r:2], made[..., 1:r:2] = spun.real, spun.imag
    else:
        made[..., : r // 2], made[..., r // 2 : r] = spun.real, spun.imag
    return made


@pytest.mark.parametrize("pairing", ["halves", "interleaved"])
@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.25])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_rotary_is_a_product_of_complex_numbers(pairing, fraction, base):
    config = Config(rotary_base=base, rotary_pairing=pairing, rotary_fraction=fraction, dtype="float64")
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8))
    wanted = turned(x, POSITIONS, base, pairing, fraction)
    inputs = {"x": x, "positions": POSITIONS}
    seen = ReferenceImplementation().rotary(config)(**inputs)["output"]
    np.testing.assert_allclose(seen, wanted, atol=1e-10)
    np.testing.assert_allclose(expected("rotary", config, {}, inputs)["output"].value, wanted, atol=1e-10)


def frequencies(**options):
    """The angles of position 1 in heads of 16, read off the rotation of (1, 0)."""
    config = Config(dtype="float64", **options)
    x = np.concatenate([np.ones((1, 1, 1, 8)), np.zeros((1, 1, 1, 8))], axis=-1)
    inputs = {"x": x, "positions": np.ones((1, 1), int)}
    seen = expected("rotary", config, {}, inputs)["output"].value[0, 0, 0]
    return np.arctan2(seen[8:], seen[:8]), np.hypot(seen[8:], seen[:8])


def test_linear_scaling_divides_every_frequency():
    plain, scaled = frequencies()[0], frequencies(rotary_scaling="linear", rotary_factor=4.0)[0]
    np.testing.assert_allclose(scaled, plain / 4)


def test_llama3_scaling_is_that_of_its_published_numbers():
    """Base 500,000 and factor 8 from 8192: pairs 0 to 3 are fast, 5 to 7 slow, 4 keeps 0.28."""
    options = {"rotary_base": 500000.0, "rotary_slow_turns": 1.0, "rotary_fast_turns": 4.0}
    plain = frequencies(**options)[0]
    scaled = frequencies(rotary_scaling="llama3", rotary_factor=8.0, **options)[0]
    share = (8192 * plain[4] / (2 * np.pi) - 1) / 3
    assert 0.28 < share < 0.29
    kept = np.array([1, 1, 1, 1, share, 0, 0, 0])
    np.testing.assert_allclose(scaled, plain * (kept + (1 - kept) / 8))


def test_yarn_falls_evenly_between_two_pairs_and_has_a_gain():
    """Base 10,000 from 8192: 32 turns belong to pair 3.2 and 1 turn to 6.2, it falls from 3 to 7."""
    plain, (scaled, lengths) = frequencies()[0], frequencies(rotary_scaling="yarn", rotary_factor=8.0)
    kept = np.array([1, 1, 1, 1, 0.75, 0.5, 0.25, 0])
    np.testing.assert_allclose(scaled, plain * (kept + (1 - kept) / 8))
    np.testing.assert_allclose(lengths, 0.1 * np.log(8) + 1)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 12, 20, 32])
def test_slopes_are_those_of_the_recursion(heads):
    np.testing.assert_allclose(ReferenceImplementation().alibi_slopes(heads), slopes_of(heads), rtol=1e-14)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20), (16, 64), (64, 512)])
def test_buckets_are_those_of_logarithms(buckets, distance, causal):
    """The formula of T5 in float64; no logarithm of these falls on a whole number by rounding."""
    offsets = np.arange(-300, 301)
    side = buckets if causal else buckets // 2
    exact = side // 2
    wanted = []
    for offset in offsets.tolist():
        far = max(-offset, 0) if causal else abs(offset)
        late = 0 if causal or offset <= 0 else side
        if far >= exact:
            share = math.log(far / exact) / math.log(distance / exact)
            far = min(exact + int(share * (side - exact) + 1e-12), side - 1)
        wanted.append(far + late)
    np.testing.assert_array_equal(relative_buckets(offsets, buckets, distance, causal=causal), wanted)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_stack_counts_axes_from_either_end(axis):
    parts = [np.arange(6.0).reshape(2, 3), -np.arange(6.0).reshape(2, 3)]
    seen = ops.stack([leaf(part) for part in parts], axis).value
    np.testing.assert_array_equal(seen, np.stack(parts, axis))


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (
            ["num_heads=4", "num_kv_heads=3"],
            "num_kv_heads=3 does not divide num_heads=4; choose a divisor of 4",
        ),
        (["rotary_fraction=1.5"], "rotary_fraction=1.5 must be at most 1; use 1 for the whole head"),
        (
            ["d_model=6", "num_heads=2", "positions=rotary"],
            "of a head of width 3 is no even number of features",
        ),
        (["window=0"], "window='0' is not a whole number of at least 1"),
        (["positions=rope"], "positions='rope' is not one of sinusoidal"),
        (["rotary_scaling=ntk"], "rotary_scaling='ntk' is not one of none, linear, yarn, llama3"),
        (["rotary_scaling=linear", "rotary_factor=0.5"], "rotary_factor=0.5 must be at least 1"),
        (["rotary_scaling=llama3", "rotary_slow_turns=40"], "rotary_slow_turns=40.0 must be below"),
    ],
)
def test_a_typed_config_that_makes_no_sense_is_refused_in_one_sentence(attest, words, fault):
    code, out, errors = attest("list", "--parameters", "self_attention", *words)
    assert (code, out, fault in errors) == (2, "", True), errors


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_plain_config_of_every_operation_makes_sense(operation):
    refuse_config(Config(), OPERATIONS[operation].reads)


def by_key_position(case):
    """Attention in float32 with slope times the position of the key, as Bloom adds it."""
    p, x = case.parameters, case.inputs["x"]
    q, k, v = (
        (x @ p[f"{name}.weight"].T).reshape(case.B, case.T, case.H, -1).swapaxes(1, 2)
        for name in ("query", "key", "value")
    )
    slopes = slopes_of(case.H).astype(np.float32)[:, None, None]
    scores = q @ k.swapaxes(-1, -2) / np.float32(math.sqrt(q.shape[-1]))
    scores = scores + slopes * case.positions[:, None, None, :].astype(np.float32)
    scores = np.where(np.tri(case.T, dtype=bool), scores, np.float32(-1e30))
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    heads = (powers / powers.sum(-1, keepdims=True)) @ v
    return heads.swapaxes(1, 2).reshape(case.B, case.T, -1) @ p["output.weight"].T


def test_the_bound_holds_for_a_bias_by_the_keys_position():
    """It is rounded at the size of the position, up to 2000 here: without that the worst is 3.0."""
    worst = 0.0
    for seed in range(40):
        case = SelfAttentionCase(
            B=2, H=3, T=5, bias=False, causal=True, at="shifted", options="positions:alibi", seed=seed
        )
        seen = by_key_position(case)
        assert seen.dtype == np.float32
        worst = max(worst, float(np.max(np.abs(seen - case.output.value) / case.output.bound)))
    assert 0.05 < worst < 0.5
