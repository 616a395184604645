"""Where eager takes another way for speed: the numbers stay those of the plain way."""

import pytest

torch = pytest.importorskip("torch")

from attest_impls.eager.attention import Linear  # noqa: E402
from attest_impls.eager.optimisation import global_norm  # noqa: E402


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (1, 1, 5)])
def test_a_map_of_one_row_is_that_of_many(bias: bool, shape: tuple[int, ...]) -> None:
    made = Linear(5, 7, bias)
    x = torch.randn(shape)
    with torch.no_grad():
        seen = made(x)
        torch.testing.assert_close(seen, torch.nn.functional.linear(x, made.weight, made.bias))
    assert seen.shape == (*shape[:-1], 7)


def test_a_map_refuses_one_row_of_another_width() -> None:
    with torch.no_grad(), pytest.raises(RuntimeError, match="shapes"):
        Linear(5, 7)(torch.randn(1, 6))


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-13, 1e-3, 1.0, 1e17, 1e19, 1e30])
def test_the_norm_of_gradients_of_any_size(size: float) -> None:
    gradients = [torch.full((300, 3), size), torch.full((100,), -size)]
    wanted = float(gradients[1][0].double().abs()) * 1000**0.5
    assert float(global_norm(gradients)) == pytest.approx(wanted, rel=1e-6)
