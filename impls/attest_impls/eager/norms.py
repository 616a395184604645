"""Norms: the features of each position by itself, brought to a scale that is learned.

Shapes: B batch, T length, D width.
"""

import torch
from torch import Tensor, nn

from attest.contract import Config


def widened(x: Tensor) -> Tensor:
    """Half precision as float32, for what follows.

    A score of 100 in bfloat16 is off by up to 0.25, and its weight by a factor of e^0.25. The mean and the
    variance of a layer norm lose their digits in the same way.
    """
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the features of each position by itself."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.eps = config.norm_eps
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model))

    def forward(self, x: Tensor) -> Tensor:
        wide = widened(x)
        centred = wide - wide.mean(-1, keepdim=True)  # (B, T, D)
        # The variance of the centred features: E[x^2] - E[x]^2 loses all digits when the mean is large.
        variance = centred.square().mean(-1, keepdim=True)  # (B, T, 1)
        normalised = centred / torch.sqrt(variance + self.eps)  # (B, T, D)
        return (normalised * self.weight + self.bias).to(x.dtype)  # (B, T, D)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight (https://arxiv.org/abs/1910.07467): no mean, no bias."""

    def __init__(self, config: Config, width: int | None = None) -> None:
        super().__init__()
        self.eps = config.norm_eps
        self.weight = nn.Parameter(torch.ones(config.d_model if width is None else width))

    def forward(self, x: Tensor) -> Tensor:
        wide = widened(x)
        mean_square = wide.square().mean(-1, keepdim=True)  # (B, T, 1)
        return (wide / torch.sqrt(mean_square + self.eps) * self.weight).to(x.dtype)  # (B, T, D)


NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}
