"""What only generation compiles: steps of one token, for one row and for several."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from attest.contract import Config

torch = pytest.importorskip("torch")


from attest.adapters.placement import on_fake_cuda  # noqa: E402
from attest_impls.compiled import Compiled  # noqa: E402
from attest_impls.compiled.cpu import product as few_rows  # noqa: E402
from attest_impls.compiled.decoding import moved  # noqa: E402
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


def weights(config: Config, seed: int, ends: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    like = Eager().generate(config).parameters()
    drawn = {name: 0.4 * rng.standard_normal(value.shape).astype(np.float32) for name, value in like.items()}
    drawn["projection.bias"][: 2 if ends else 3] = -1e4
    return drawn


def expect_same(
    config: Config, rows: int, seeds: range, max_len: int = 12, method: str = "greedy", ends: bool = True
) -> None:
    eager, compiled = Eager().generate(config), Compiled().generate(config)
    source = np.random.default_rng(9).integers(3, 11, (rows, 7))
    for seed in seeds:
        given = weights(config, seed, ends)
        eager.load(given)
        compiled.load(given)
        wanted, seen = (g(source=source, max_len=max_len, method=method) for g in (eager, compiled))
        np.testing.assert_array_equal(seen["tokens"], wanted["tokens"])
        np.testing.assert_allclose(seen["scores"], wanted["scores"], atol=1e-5)


@pytest.mark.slow
def test_a_single_row_is_decoded_like_eager_does() -> None:
    expect_same(TINY, 1, range(3))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_a_cache_longer_than_what_a_step_reads_of_it(method) -> None:
    expect_same(TINY.but(max_len=80), 2, range(2), max_len=75, method=method, ends=False)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, 7, 21])
def test_several_rows_are_decoded_like_eager_does(rows: int) -> None:
    expect_same(TINY, rows, range(3))


@pytest.mark.parametrize("rows", [[1, 0, 1], [2, 2]], ids=str)
def test_rows_are_moved_without_writing_to_the_old_ones(rows: list[int]) -> None:
    old = torch.arange(6.0).view(3, 2)
    made = moved(old, torch.tensor(rows))
    assert made.tolist() == [[2.0 * i, 2.0 * i + 1] for i in rows]
    assert old.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_rows_stay_where_they_are_in_the_memory_of_a_gpu() -> None:
    """A CUDA graph is recorded for addresses: as many rows as before keep theirs."""
    with on_fake_cuda():
        old = torch.zeros(3, 2, device="cuda")
        assert moved(old, torch.tensor([1, 0, 1], device="cuda")) is old
        assert moved(old, torch.tensor([1, 0], device="cuda")).shape == (2, 2)


@pytest.mark.slow
def test_the_product_of_a_weight_and_few_rows_is_that_of_matmul() -> None:
    """Sizes on both sides of a tile, a vector and a cache line, with nothing written beside the result."""
    for rows, width, out in product((2, 3, 4, 8, 9, 16, 17, 33, 64), (1, 16, 33, 520), (1, 5, 8, 12, 13, 40)):
        generator = torch.Generator().manual_seed(rows * width + out)
        weight = torch.randn(out, width, generator=generator)
        x = torch.randn(rows, width, generator=generator)
        wanted = x.double() @ weight.double().t()
        torch.testing.assert_close(few_rows.product(weight, x).double(), wanted, rtol=1e-5, atol=1e-4)
