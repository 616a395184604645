"""The torch.compile'd Transformer as a plugin: eager's model with fused attention, in one graph per job."""

from __future__ import annotations

from typing import Any

import pluggy
import torch
import torch.nn.functional as F
from torch import Tensor

from attest.contract import Config, ShapePolicy
from attest_impls.eager import Eager, attention, embedding, layers
from attest_impls.eager.model import Transformer
from attest_impls.eager.norm import LayerNorm
from attest_impls.eager.training import Loss, Trainer

from .component import (
    AttentionAlone,
    CompiledComponent,
    CrossEntropy,
    Encoding,
    EncodingStack,
    Heads,
    Inputs,
    Positions,
    Reading,
    ReadingStack,
    TokenLookup,
    component,
    number,
    summed_loss,
)
from .fused import Attention
from .generation import Decoding, Generator


class CompiledTrainer(Trainer):
    """eager's trainer; forward and loss are one graph, and so is their backward pass."""

    model: Decoding

    def _summed_loss(self, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
        # Two arrays instead of two slices of one: strides of T - 1 would keep inductor from whole rows.
        given, labels = target[:, :-1].contiguous(), target[:, 1:].contiguous()
        self.model.checked(source=source, target=given)
        if given.shape[1] == 1 < self.config.max_len:  # a length of 1 would be another graph
            given, labels = (F.pad(x, (0, 1), value=self.config.pad_id) for x in (given, labels))
        run = self.model.compiled("training", _summed_loss)
        with torch.enable_grad():  # evaluation too: without gradients it would be another graph
            loss: Tensor = run(self.model.module, source, given, labels, number(smoothing, source))
        return loss if torch.is_grad_enabled() else loss.detach()

    def compile_report(self) -> Any:
        return self.model.compile_report()


def _summed_loss(
    model: Transformer, source: Tensor, given: Tensor, labels: Tensor, smoothing: Tensor
) -> Tensor:
    """Of the labels that follow what is given; what is compiled."""
    logits = model._decode(given, model._encode(source), source)
    return summed_loss(logits, labels, model.config.pad_id, smoothing)


class Compiled(Eager):
    """Every operation of eager, compiled. Masks, schedules, clipping and Adam are eager's own."""

    name = "compiled"
    description = "eager's model under torch.compile, with fused attention and static caches"
    dtypes = ("float32", "float64", "bfloat16")
    devices = ("cpu", "cuda")
    compiled = True
    shape_policy = ShapePolicy(min_size=2, one_config=True, always_mask=True)

    def attention(self, config: Config) -> CompiledComponent:
        return component(lambda _: Attention(), config, AttentionAlone)

    def qkv_projection(self, config: Config) -> CompiledComponent:
        return component(attention.QKVProjection, config)

    def multi_head_attention(self, config: Config) -> CompiledComponent:
        return component(attention.MultiHeadAttention, config, Heads)

    def feed_forward(self, config: Config) -> CompiledComponent:
        return component(layers.FeedForward, config)

    def token_embedding(self, config: Config) -> CompiledComponent:
        return component(embedding.TokenEmbedding, config, TokenLookup)

    def positional_encoding(self, config: Config) -> CompiledComponent:
        return component(embedding.PositionalEncoding, config, Positions)

    def input_embedding(self, config: Config) -> CompiledComponent:
        return component(embedding.InputEmbedding, config, Inputs)

    def layer_norm(self, config: Config) -> CompiledComponent:
        return component(LayerNorm, config)

    def encoder_layer(self, config: Config) -> CompiledComponent:
        return component(layers.EncoderLayer, config, Encoding)

    def decoder_layer(self, config: Config) -> CompiledComponent:
        return component(layers.DecoderLayer, config, Reading)

    def encoder(self, config: Config) -> CompiledComponent:
        return component(layers.Encoder, config, EncodingStack)

    def decoder(self, config: Config) -> CompiledComponent:
        return component(layers.Decoder, config, ReadingStack)

    def transformer(self, config: Config) -> Decoding:
        return component(Transformer, config, Decoding)

    def loss(self, config: Config) -> CompiledComponent:
        return component(Loss, config, CrossEntropy)

    def trainer(self, config: Config) -> CompiledTrainer:
        return CompiledTrainer(self.transformer(config), config)

    def generate(self, config: Config) -> Generator:
        return component(Transformer, config, Generator)


@pluggy.HookimplMarker("attest")
def attest_implementations() -> list[Compiled]:
    return [Compiled()]
