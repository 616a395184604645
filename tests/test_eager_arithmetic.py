"""Where a short formula would be wrong for some numbers, and eager's is not."""

import pytest

torch = pytest.importorskip("torch")

from attest.contract import Config  # noqa: E402
from attest_impls.eager.model import attention  # noqa: E402
from attest_impls.eager.norms import LayerNorm  # noqa: E402
from attest_impls.eager.optimisation import global_norm  # noqa: E402


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-13, 1e-3, 1.0, 1e17, 1e19, 1e30])
def test_the_norm_of_gradients_of_any_size(size: float) -> None:
    gradients = [torch.full((300, 3), size), torch.full((100,), -size)]
    wanted = float(gradients[1][0].double().abs()) * 1000**0.5
    assert float(global_norm(gradients)) == pytest.approx(wanted, rel=1e-6)


def test_a_layer_norm_far_from_zero_keeps_its_digits() -> None:
    norm = LayerNorm(Config(d_model=4, num_heads=1))
    near = torch.tensor([[[-1.0, 0.0, 1.0, 4.0]]])
    torch.testing.assert_close(norm(near + 2.0**20), norm(near))


def test_half_precision_is_widened_for_the_scores() -> None:
    q = torch.tensor([[10.0, 1.0]], dtype=torch.bfloat16)
    k = torch.tensor([[10.0, 0.0], [10.0, 0.25]], dtype=torch.bfloat16)  # 100.25 is no bfloat16
    weights = attention(q, k, torch.eye(2, dtype=torch.bfloat16))[1]
    wanted = torch.tensor([[0.0, 0.25]]).div(2**0.5).softmax(-1)
    torch.testing.assert_close(weights, wanted)
