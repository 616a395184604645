"""What only generation compiles: one row in inductor's own loops, and weights that are constants."""

from __future__ import annotations

import numpy as np
import pytest

from attest.contract import Config

torch = pytest.importorskip("torch")

from attest_impls.compiled import Compiled  # noqa: E402
from attest_impls.compiled.frozen import FrozenGenerator  # noqa: E402
from attest_impls.eager import Eager  # noqa: E402

# torch's own imports warn of what torch deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TINY = Config(
    d_model=16,
    num_heads=2,
    d_ff=24,
    num_encoder_layers=1,
    num_decoder_layers=1,
    source_vocab=11,
    target_vocab=11,
    max_len=20,
)
FROZEN = TINY.but(options=(("freeze", "true"),))


def weights(config: Config, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    like = Eager().generate(config).parameters()
    drawn = {name: 0.4 * rng.standard_normal(value.shape).astype(np.float32) for name, value in like.items()}
    drawn["projection.bias"][:2] = -1e4
    return drawn


def expect_same(config: Config, rows: int, seeds: range) -> None:
    eager, compiled = Eager().generate(config), Compiled().generate(config)
    source = np.random.default_rng(9).integers(3, 11, (rows, 7))
    for seed in seeds:
        given = weights(config, seed)
        eager.load(given)
        compiled.load(given)
        wanted, seen = (g(source=source, max_len=12, method="greedy") for g in (eager, compiled))
        np.testing.assert_array_equal(seen["tokens"], wanted["tokens"])
        np.testing.assert_allclose(seen["scores"], wanted["scores"], atol=1e-5)


@pytest.mark.slow
def test_a_single_row_is_decoded_like_eager_does() -> None:
    expect_same(TINY, 1, range(3))


@pytest.mark.slow
def test_frozen_weights_are_those_loaded_last() -> None:
    assert isinstance(Compiled().generate(FROZEN), FrozenGenerator)
    expect_same(FROZEN, 3, range(2))


def test_freezing_is_asked_for_by_a_word() -> None:
    with pytest.raises(ValueError, match="freeze='yes' is neither true nor false; give one of them"):
        Compiled().generate(TINY.but(options=(("freeze", "yes"),)))
