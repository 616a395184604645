"""A student's Transformer parts in PyTorch, with three faults at once. The report must name all three."""

import math

import pluggy
import torch
from torch import nn

from attest.adapters.torch import TorchComponent


def attention(q, k, v, mask=None, causal=False):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.softmax(-1)
    if causal:
        T, S = scores.shape[-2:]
        past = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        mask = past if mask is None else mask & past
    if mask is not None:
        weights = weights * mask
    return weights @ v, weights


class Attention(nn.Module):
    def forward(self, q, k, v, mask=None, causal=False):
        return attention(q, k, v, mask, causal)


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.inner_width, config.bias)
        self.outer = nn.Linear(config.inner_width, config.d_model, config.bias)
        self.activation = torch.relu if config.activation == "relu" else nn.functional.gelu

    def forward(self, x):
        return self.outer(self.activation(self.inner(x)))


class Positions(nn.Module):
    def __init__(self, config):
        super().__init__()
        position = torch.arange(config.max_len, dtype=torch.float64)[:, None]
        half = torch.arange(0, config.d_model, 2, dtype=torch.float64)
        angle = position / 10000 ** (half / config.d_model)
        table = torch.cat([angle.sin(), angle.cos()], -1)[:, : config.d_model]
        self.register_buffer("table", table)

    def forward(self, x):
        if x.shape[1] > len(self.table):
            raise ValueError(f"x length={x.shape[1]} is beyond max_len={len(self.table)}; shorten it")
        return x + self.table[: x.shape[1]].to(x.dtype)


class LayerNorm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model))
        self.eps = config.norm_eps

    def forward(self, x):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias


class Student:
    name = "three_faults"
    dtypes = ("float32", "float64")

    def attention(self, config):
        return TorchComponent(Attention(), config)

    def feed_forward(self, config):
        return TorchComponent(FeedForward(config), config)

    def positional_encoding(self, config):
        return TorchComponent(Positions(config), config)

    def layer_norm(self, config):
        return TorchComponent(LayerNorm(config), config)


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [Student()]
