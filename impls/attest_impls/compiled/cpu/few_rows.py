"""A linear map of a step of one token: of one row a sum that streams the weight, of several our own product.

A step of one row is bound by reading the weights. Written as a sum over (out, in), inductor reads each row
of a weight once, on two AVX2 cores 23 GB/s where BLAS reads 14. More rows are multiplied by product.py.
Weights stay as they are, so there is nothing that `load` could leave stale.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attest_impls.eager.model import Linear

from ..private_torch import in_this_order
from .product import product


def mapped(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b for x (B, 1, in) and W (out, in)."""
    rows = stored(x[:, 0])
    y = (weight * rows).sum(-1)[None] if x.shape[0] == 1 else product(weight, rows)
    return (y if bias is None else y + bias)[:, None]


def stored(x: Tensor) -> Tensor:
    """x (B, n) as a separate array, row by row: inductor would compute it again wherever it is read."""
    return in_this_order(x, (x.shape[1], 1))


class FewRows(Linear):
    """eager's map with the same parameters. Where it is trained or reads several tokens it is torch's."""

    def __init__(self, plain: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self.weight, self.bias = plain.weight, plain.bias

    def forward(self, x: Tensor) -> Tensor:
        whole = self.weight.dtype in (torch.float32, torch.float64)  # low precision would round every product
        one = x.ndim == 3 and x.shape[1] == 1
        if one and whole and self.weight.device.type == "cpu" and not torch.is_grad_enabled():
            return mapped(x, self.weight, self.bias)
        return super().forward(x)


def exchange(module: nn.Module) -> None:
    """Every linear map inside a module, in place."""
    for name, child in list(module.named_children()):
        if type(child) is Linear:
            setattr(module, name, FewRows(child))
        else:
            exchange(child)
