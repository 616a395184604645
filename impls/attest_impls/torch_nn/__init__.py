"""torch's own layers behind the adapter: the independent peer. Nothing of torch is repaired here.

Shapes: B batch, H heads, T queries, S keys, D width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pluggy
import torch
from torch import Tensor, nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import Array, Config

from .masks import causal as causal_mask
from .masks import inverted_attention_mask
from .names import multi_head


def component(build: Any, config: Config, names: Any = None, call: Any = None) -> TorchComponent:
    with seeded(config.seed, config.device):
        module = build(config)
    return TorchComponent(module, config, names, call)


class Projections(nn.Module):
    """nn.Linear for each of query, key and value."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.query, self.key, self.value = (
            nn.Linear(config.d_model, config.d_model, config.bias) for _ in range(3)
        )

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"q": self.query(x), "k": self.key(x), "v": self.value(x)}


def scaled_dot_product(
    _: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """F.scaled_dot_product_attention. Its is_causal is aligned top-left, so the mask is written out."""
    if causal:
        lower = causal_mask(q.shape[-2], k.shape[-2], q.device)
        mask = lower if mask is None else mask & lower
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attend_with_heads(
    module: nn.MultiheadAttention, query: Tensor, key_value: Tensor, mask: Tensor | None = None
) -> Tensor:
    mask = inverted_attention_mask(mask, query.shape[0], query.shape[1], module.num_heads)
    return module(query, key_value, key_value, attn_mask=mask, need_weights=False)[0]


class TorchNN:
    """What torch.nn and torch.nn.functional offer."""

    name = "torch_nn"
    description = "torch's own attention, layers and optimiser"
    dtypes = ("float32", "float64")
    known_failures = ()

    def attention(self, config: Config) -> TorchComponent:
        return component(lambda _: nn.Identity(), config, call=scaled_dot_product)

    def qkv_projection(self, config: Config) -> TorchComponent:
        return component(Projections, config)

    def multi_head_attention(self, config: Config) -> TorchComponent:
        def build(c: Config) -> nn.Module:
            return nn.MultiheadAttention(c.d_model, c.num_heads, c.dropout, c.bias, batch_first=True)

        return component(build, config, multi_head(config), attend_with_heads)

    def length_mask(self, lengths: Array, size: int) -> Array:
        return (torch.arange(size) < torch.tensor(np.asarray(lengths))[:, None])[:, None].numpy()

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return (torch.tensor(np.asarray(ids)) != pad_id)[:, None].numpy()

    def causal_mask(self, T: int, S: int) -> Array:
        return causal_mask(T, S).numpy()


@pluggy.HookimplMarker("attest")
def attest_implementations() -> list[TorchNN]:
    return [TorchNN()]
