"""The torch.compile'd Transformer as a plugin: eager's model with fused attention, in one graph per job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pluggy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attest.contract import Arrays, Config, ShapePolicy
from attest_impls.eager import HEADS, NETWORK, Eager, model
from attest_impls.eager.language_model import CausalLayer, LanguageModel, SelfAttentionAlone
from attest_impls.eager.model import Transformer
from attest_impls.eager.norms import LayerNorm, RMSNorm
from attest_impls.eager.positions import RelativeBias, Rotary, added_positions
from attest_impls.eager.training import LanguageModelTrainer, Loss, TextLoss, Trainer

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
from .private_torch import settings
from .text_components import (
    CausalLayerComponent,
    TextAttentionComponent,
    TextCrossEntropy,
    Turning,
)
from .text_generation import Completer, TextModel, whole

MODEL = {
    "norm_kind": "any",
    "parallel": "any",
    "embedding_norm": "any",
    "head_bias": "any",
    "projection_scale": "any",
}
OF_2017 = (
    *("feed_forward", "encoder_layer", "decoder_layer", "encoder", "decoder"),
    *("transformer", "optimizer", "trainer", "generate"),
)
OF_TODAY = (
    *("positional_encoding", "rotary", "relative_bias", "self_attention", "causal_layer"),
    *("language_model", "language_model_optimizer", "language_model_trainer", "complete"),
)


class CompiledTrainer(Trainer):
    """eager's trainer; forward and loss are one graph, and so is their backward pass."""

    @settings()
    def accumulate(self, batches: Sequence[Arrays]) -> dict[str, float]:
        """eager's. The backward pass may be compiled when it is first run."""
        return super().accumulate(batches)

    def loss_of(self, streams: dict[str, Tensor], smoothing: float) -> Tensor:
        written = streams[self.architecture.written]
        # Two arrays instead of two slices of one: strides of T - 1 would keep inductor from whole rows.
        given, labels = written[:, :-1].contiguous(), written[:, 1:].contiguous()
        if given.shape[1] == 1 < self.config.max_len:  # a length of 1 would be another graph
            given, labels = (F.pad(x, (0, 1), value=self.config.pad_id) for x in (given, labels))
        prompt = [] if self.architecture.starts_from_rows else [streams[self.architecture.prompt]]
        run = self.model.compiled("training", type(self).graph)
        rate = as_tensor_like(smoothing, written)
        with torch.enable_grad():  # evaluation too: without gradients it would be another graph
            loss: Tensor = run(self.model.module, *prompt, given, labels, rate)
        return loss if torch.is_grad_enabled() else loss.detach()

    @staticmethod
    def graph(model: Transformer, source: Tensor, given: Tensor, labels: Tensor, smoothing: Tensor) -> Tensor:
        """The summed loss of the labels that follow what is given; what is compiled."""
        return summed_loss(model(source, given), labels, model.config.pad_id, smoothing)

    def compile_report(self) -> Any:
        return self.model.compile_report()


class CompiledTextTrainer(CompiledTrainer, LanguageModelTrainer):
    """The same for a batch of texts."""

    @staticmethod
    def graph(model: LanguageModel, given: Tensor, labels: Tensor, smoothing: Tensor) -> Tensor:  # type: ignore[override]
        return summed_loss(whole(model, given), labels, model.config.pad_id, smoothing)


class Compiled(Eager):
    """The model of 2017 and decoder-only models of today.

    Masks, slopes, buckets, schedules, clipping and Adam are eager's.
    """

    name = "compiled"
    description = "eager's model under torch.compile, with fused attention and static caches"
    dtypes = ("float32", "float64", "bfloat16")
    devices = ("cpu", "cuda")
    compiled = True
    supports: ClassVar[Any] = [
        {"operations": OF_2017, **NETWORK},
        {"operations": OF_TODAY, **NETWORK, **HEADS, **MODEL},
    ]
    padding = ("none", "right", "left", "packed")
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
        return component("positional_encoding", added_positions, config)

    def input_embedding(self, config: Config) -> CompiledComponent:
        return component("input_embedding", model.InputEmbedding, config)

    def layer_norm(self, config: Config) -> CompiledComponent:
        return component("layer_norm", LayerNorm, config)

    def rms_norm(self, config: Config) -> CompiledComponent:
        return component("rms_norm", RMSNorm, config)

    def rotary(self, config: Config) -> CompiledComponent:
        return component("rotary", Rotary, config, Turning)

    def relative_bias(self, config: Config) -> CompiledComponent:
        return component("relative_bias", RelativeBias, config)

    def self_attention(self, config: Config) -> CompiledComponent:
        return component("self_attention", SelfAttentionAlone, config, TextAttentionComponent)

    def causal_layer(self, config: Config) -> CompiledComponent:
        return component("causal_layer", CausalLayer, config, CausalLayerComponent)

    def language_model(self, config: Config) -> TextModel:
        return component("language_model", LanguageModel, config, TextModel)

    def language_model_loss(self, config: Config) -> CompiledComponent:
        return component("language_model_loss", TextLoss, config, TextCrossEntropy)

    def language_model_trainer(self, config: Config) -> CompiledTextTrainer:
        return CompiledTextTrainer(self.language_model(config), config)

    def complete(self, config: Config) -> Completer:
        return component("complete", LanguageModel, config, Completer)

    # Attention of other shapes and encoder-only models are not compiled: eager offers them.
    chunked_attention = linear_attention = block_sparse_attention = None  # type: ignore[assignment]
    masked_language_model = classifier = None  # type: ignore[assignment]
    mask_tokens = masked_language_model_loss = None  # type: ignore[assignment]
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
