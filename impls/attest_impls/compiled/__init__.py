"""The torch.compile'd Transformer as a plugin: eager's model with fused attention, in one graph per job."""

from __future__ import annotations

from typing import Any

import pluggy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attest.contract import Config, ShapePolicy
from attest_impls.eager import Eager, model
from attest_impls.eager.model import Transformer
from attest_impls.eager.norms import LayerNorm
from attest_impls.eager.positions import PositionalEncoding
from attest_impls.eager.training import Loss, Trainer

from .component import (
    AttentionAlone,
    CompiledComponent,
    CrossEntropy,
    Encoding,
    EncodingStack,
    Heads,
    Reading,
    ReadingStack,
    as_tensor_like,
    component,
    summed_loss,
)
from .generation import Decoding, Generator


class CompiledTrainer(Trainer):
    """eager's trainer; forward and loss are one graph, and so is their backward pass."""

    model: Decoding

    def loss_of(self, streams: dict[str, Tensor], smoothing: float) -> Tensor:
        source, target = streams["source"], streams["target"]
        # Two arrays instead of two slices of one: strides of T - 1 would keep inductor from whole rows.
        given, labels = target[:, :-1].contiguous(), target[:, 1:].contiguous()
        if given.shape[1] == 1 < self.config.max_len:  # a length of 1 would be another graph
            given, labels = (F.pad(x, (0, 1), value=self.config.pad_id) for x in (given, labels))
        run = self.model.compiled("training", loss_after)
        with torch.enable_grad():  # evaluation too: without gradients it would be another graph
            loss: Tensor = run(self.model.module, source, given, labels, as_tensor_like(smoothing, source))
        return loss if torch.is_grad_enabled() else loss.detach()

    def compile_report(self) -> Any:
        return self.model.compile_report()


def loss_after(
    model: Transformer, source: Tensor, given: Tensor, labels: Tensor, smoothing: Tensor
) -> Tensor:
    """The summed loss of the labels that follow what is given; what is compiled."""
    return summed_loss(model(source, given), labels, model.config.pad_id, smoothing)


class Compiled(Eager):
    """Every operation of eager, compiled. Masks, schedules, clipping and Adam are eager's own."""

    name = "compiled"
    description = "eager's model under torch.compile, with fused attention and static caches"
    dtypes = ("float32", "float64", "bfloat16")
    devices = ("cpu", "cuda")
    compiled = True
    supports = None  # no model is compiled yet with what eager has beyond the model of 2017
    padding = ("none", "right")
    shape_policy = ShapePolicy(min_size=2, one_config=True, always_mask=True)

    def attention(self, config: Config) -> CompiledComponent:
        return component("attention", lambda _: nn.Identity(), config, AttentionAlone)

    def qkv_projection(self, config: Config) -> CompiledComponent:
        return component("qkv_projection", model.QKVProjection, config)

    def multi_head_attention(self, config: Config) -> CompiledComponent:
        return component("multi_head_attention", model.MultiHeadAttention, config, Heads)

    def feed_forward(self, config: Config) -> CompiledComponent:
        return component("feed_forward", model.FeedForward, config)

    def token_embedding(self, config: Config) -> CompiledComponent:
        return component("token_embedding", model.TokenEmbedding, config)

    def positional_encoding(self, config: Config) -> CompiledComponent:
        return component("positional_encoding", PositionalEncoding, config)

    def input_embedding(self, config: Config) -> CompiledComponent:
        return component("input_embedding", model.InputEmbedding, config)

    def layer_norm(self, config: Config) -> CompiledComponent:
        return component("layer_norm", LayerNorm, config)

    rms_norm = None  # type: ignore[assignment]  # not offered: no model is compiled with it yet

    # Nor with other positions, heads and layers: no model of today is compiled.
    rotary = alibi_slopes = relative_buckets = relative_bias = None  # type: ignore[assignment]
    chunked_attention = linear_attention = block_sparse_attention = None  # type: ignore[assignment]
    self_attention = causal_layer = language_model = complete = None  # type: ignore[assignment]
    language_model_loss = masked_language_model = classifier = None  # type: ignore[assignment]
    mask_tokens = masked_language_model_loss = None  # type: ignore[assignment]
    language_model_optimizer = language_model_trainer = None  # type: ignore[assignment]
    masked_language_model_trainer = classifier_trainer = None  # type: ignore[assignment]

    # The single pieces of M10 are not compiled: eager offers them.
    linear = activation = softmax = cross_entropy = None  # type: ignore[assignment]
    sgd = momentum = adam = adamw = xavier = he = None  # type: ignore[assignment]

    def encoder_layer(self, config: Config) -> CompiledComponent:
        return component("encoder_layer", model.EncoderLayer, config, Encoding)

    def decoder_layer(self, config: Config) -> CompiledComponent:
        return component("decoder_layer", model.DecoderLayer, config, Reading)

    def encoder(self, config: Config) -> CompiledComponent:
        return component("encoder", model.Encoder, config, EncodingStack)

    def decoder(self, config: Config) -> CompiledComponent:
        return component("decoder", model.Decoder, config, ReadingStack)

    def transformer(self, config: Config) -> Decoding:
        return component("transformer", Transformer, config, Decoding)

    def loss(self, config: Config) -> CompiledComponent:
        return component("loss", Loss, config, CrossEntropy)

    def trainer(self, config: Config) -> CompiledTrainer:
        return CompiledTrainer(self.transformer(config), config)

    def generate(self, config: Config) -> Generator:
        return component("generate", Transformer, config, Generator)


@pluggy.HookimplMarker("attest")
def attest_implementations() -> list[Compiled]:
    return [Compiled()]
