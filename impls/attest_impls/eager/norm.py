"""Layer normalisation, with its gradient written out.

Shapes: B batch, T length, D width.
"""

from typing import Any

import torch
from torch import Tensor, nn

from attest.contract import Config

from .arguments import check_config, check_width


def normalised(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """n = (x - mean) r with r = 1 / sqrt(variance + eps), over the last axis; and r.

    The variance is the biased one, of the centred features: E[x^2] - E[x]^2 loses all digits when the mean is
    large.
    """
    centred = x - x.mean(-1, keepdim=True)
    r = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    return centred * r, r


class Normalise(torch.autograd.Function):
    """The same with a backward pass of few kernels: dx = r (g - mean(g) - n mean(g n))."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        n, r = normalised(x, eps)
        ctx.save_for_backward(n, r)
        return n

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        n, r = ctx.saved_tensors
        along = (g * n).mean(-1, keepdim=True)
        return (g - g.mean(-1, keepdim=True)).addcmul_(n, along, value=-1).mul_(r), None


class LayerNorm(nn.Module):
    """normalised(x) * weight + bias over the features of one position. Low precision is widened inside."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        check_config(config, "d_model", "norm_eps")
        self.eps, self.d_model = config.norm_eps, config.d_model
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model))

    def forward(self, x: Tensor) -> Tensor:
        check_width("x", x, self.d_model)
        wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            n = Normalise.apply(wide, self.eps)
        else:
            n = normalised(wide, self.eps)[0]
        return torch.addcmul(self.bias, n.to(x.dtype), self.weight)
