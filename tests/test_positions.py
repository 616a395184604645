"""The reference's positions against derivations that share no code with it."""

import math

import numpy as np
import pytest

from attest.contract import Config
from attest.milestones.m07_positions.checks import slopes_of
from attest.reference import ops
from attest.reference.implementation import ReferenceImplementation
from attest.reference.oracle import expected
from attest.reference.parts.relative_positions import relative_buckets
from attest.reference.tape import leaf

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
