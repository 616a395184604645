"""The explicit PyTorch Transformer as a plugin: no fused attention, no ready-made Transformer layer."""

from __future__ import annotations

import numpy as np
import pluggy
import torch

from attest.adapters.torch import TorchComponent
from attest.contract import Array, Config

from . import attention, embedding, layers, sampling
from .component import Clipping, Generator, Optimizer, TransformerComponent, component
from .model import Transformer
from .norm import LayerNorm
from .optimisation import LearningRate
from .training import Loss, Trainer


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
        return component(LayerNorm, config)

    def encoder_layer(self, config: Config) -> TorchComponent:
        return component(layers.EncoderLayer, config)

    def decoder_layer(self, config: Config) -> TorchComponent:
        return component(layers.DecoderLayer, config)

    def encoder(self, config: Config) -> TorchComponent:
        return component(layers.Encoder, config)

    def decoder(self, config: Config) -> TorchComponent:
        return component(layers.Decoder, config)

    def transformer(self, config: Config) -> TransformerComponent:
        return component(Transformer, config, TransformerComponent)

    def loss(self, config: Config) -> TorchComponent:
        return component(Loss, config)

    def learning_rate(self, config: Config) -> LearningRate:
        return LearningRate(config)

    def clip_gradients(self, config: Config) -> Clipping:
        return Clipping(config)

    def optimizer(self, config: Config) -> Optimizer:
        return Optimizer(config)

    def trainer(self, config: Config) -> Trainer:
        return Trainer(self.transformer(config), config)

    def generate(self, config: Config) -> Generator:
        return component(Transformer, config, Generator)

    def next_token_distribution(
        self,
        logits: Array,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> Array:
        given = np.asarray(logits)
        p = sampling.next_token_distribution(torch.tensor(given), temperature, top_k, top_p)
        return p.numpy().astype(given.dtype)


@pluggy.HookimplMarker("attest")
def attest_implementations() -> list[Eager]:
    return [Eager()]
