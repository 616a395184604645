"""The explicit PyTorch Transformer as a plugin: no fused attention, no ready-made Transformer layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pluggy
import torch
from torch import nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import Array, Config

from . import attention, embedding, layers


def component(build: Any, config: Config) -> TorchComponent:
    """The module that `build` makes from the config and its seed, behind the contract."""
    with seeded(config.seed, config.device):
        module: nn.Module = build(config)
    return TorchComponent(module, config)


class Eager:
    """Every operation in plain PyTorch."""

    name = "eager"
    description = "explicit from-scratch PyTorch"
    dtypes = ("float32", "float64", "bfloat16")

    def attention(self, config: Config) -> TorchComponent:
        return component(lambda _: attention.Attention(), config)

    def qkv_projection(self, config: Config) -> TorchComponent:
        return component(attention.QKVProjection, config)

    def multi_head_attention(self, config: Config) -> TorchComponent:
        return component(attention.MultiHeadAttention, config)

    def length_mask(self, lengths: Array, size: int) -> Array:
        return attention.length_mask(torch.tensor(np.asarray(lengths)), size).numpy()

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return attention.padding_mask(torch.tensor(np.asarray(ids)), pad_id).numpy()

    def causal_mask(self, T: int, S: int) -> Array:
        return attention.causal_mask(T, S).numpy()

    def feed_forward(self, config: Config) -> TorchComponent:
        return component(layers.FeedForward, config)

    def token_embedding(self, config: Config) -> TorchComponent:
        return component(embedding.TokenEmbedding, config)

    def positional_encoding(self, config: Config) -> TorchComponent:
        return component(embedding.PositionalEncoding, config)

    def input_embedding(self, config: Config) -> TorchComponent:
        return component(embedding.InputEmbedding, config)

    def layer_norm(self, config: Config) -> TorchComponent:
        return component(layers.LayerNorm, config)

    def encoder_layer(self, config: Config) -> TorchComponent:
        return component(layers.EncoderLayer, config)

    def decoder_layer(self, config: Config) -> TorchComponent:
        return component(layers.DecoderLayer, config)

    def encoder(self, config: Config) -> TorchComponent:
        return component(layers.Encoder, config)

    def decoder(self, config: Config) -> TorchComponent:
        return component(layers.Decoder, config)


@pluggy.HookimplMarker("attest")
def attest_implementations() -> list[Eager]:
    return [Eager()]
