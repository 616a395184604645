"""The explicit PyTorch Transformer as a plugin: no fused attention, no ready-made Transformer layer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pluggy
import torch
from torch import nn

from attest.contract import Array, Config

from . import (
    attention_variants,
    encoder_models,
    first_principles,
    language_model,
    masking,
    masks,
    model,
    norms,
    positions,
    sampling,
)
from .checks import check_buckets, check_heads, check_lengths, check_rows_of_ids, check_sampling, check_sizes
from .component import (
    AttentionComponent,
    CheckedComponent,
    Clipping,
    Completer,
    Generator,
    LanguageModelComponent,
    Optimizer,
    TransformerComponent,
    component,
)
from .encoder_training import ClassifierTrainer, MaskedLanguageModelTrainer
from .optimisation import LearningRate
from .training import LanguageModelTrainer, Loss, TextLoss, Trainer

NETWORK = {"activation": ("silu", "gelu_tanh"), "gated": (True,)}
# What attention of today has, and what a model made of it has.
HEADS = {
    "positions": "any",
    "rotary_base": "any",
    "rotary_pairing": "any",
    "rotary_fraction": "any",
    "rotary_scaling": "any",
    "rotary_factor": "any",
    "rotary_original": "any",
    "rotary_slow_turns": "any",
    "rotary_fast_turns": "any",
    "relative_buckets": "any",
    "relative_distance": "any",
    "num_kv_heads": "any",
    "head_width": "any",
    "window": "any",
    "window_sides": "any",
    "attention_scale": "any",
    "score_cap": "any",
    "sinks": "any",
    "qk_norm": "any",
    "qkv_bias": "any",
}
MODEL = {
    "norm_kind": "any",
    "parallel": "any",
    "embedding_norm": "any",
    "head_bias": "any",
    "projection_scale": "any",
    "segments": "any",
    "pooling": "any",
}
OF_TODAY = (
    *("positional_encoding", "rotary", "relative_bias", "self_attention", "causal_layer"),
    *("language_model", "language_model_optimizer", "language_model_trainer", "complete"),
    *("masked_language_model", "masked_language_model_trainer", "classifier", "classifier_trainer"),
)
# What a model with encoder and decoder has beside, in the manner of T5 (arXiv 1910.10683).
T5 = {
    "operations": ("transformer", "optimizer", "trainer", "generate"),
    "positions": ("relative", "none"),
    "relative_buckets": "any",
    "relative_distance": "any",
    "norm_kind": "any",
    "head_width": "any",
    "attention_scale": "any",
    "share_embeddings": "any",
    "projection_scale": "any",
}


class Eager:
    """Every operation in plain PyTorch."""

    name = "eager"
    description = "explicit from-scratch PyTorch"
    dtypes = ("float32", "float64", "bfloat16")
    padding = ("none", "right", "left", "packed")
    supports: ClassVar[Any] = [
        NETWORK,
        {"operations": OF_TODAY, **NETWORK, **HEADS, **MODEL},
        {**NETWORK, **T5},
    ]

    def attention(self, config: Config) -> CheckedComponent:
        return component("attention", lambda _: nn.Identity(), config, AttentionComponent)

    def qkv_projection(self, config: Config) -> CheckedComponent:
        return component("qkv_projection", model.QKVProjection, config)

    def multi_head_attention(self, config: Config) -> CheckedComponent:
        return component("multi_head_attention", model.MultiHeadAttention, config)

    def length_mask(self, lengths: Array, size: int) -> Array:
        given = torch.tensor(np.array(lengths, order="C"))
        check_lengths(given, size)
        return masks.length_mask(given, size).numpy()

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        given = torch.tensor(np.array(ids, order="C"))
        check_rows_of_ids(given)
        return masks.padding_mask(given, pad_id).numpy()

    def causal_mask(self, T: int, S: int) -> Array:
        check_sizes(T, S)
        return masks.causal_mask(T, S).numpy()

    def feed_forward(self, config: Config) -> CheckedComponent:
        return component("feed_forward", model.FeedForward, config)

    def token_embedding(self, config: Config) -> CheckedComponent:
        return component("token_embedding", model.TokenEmbedding, config)

    def positional_encoding(self, config: Config) -> CheckedComponent:
        return component("positional_encoding", positions.added_positions, config)

    def input_embedding(self, config: Config) -> CheckedComponent:
        return component("input_embedding", model.InputEmbedding, config)

    def layer_norm(self, config: Config) -> CheckedComponent:
        return component("layer_norm", norms.LayerNorm, config)

    def rms_norm(self, config: Config) -> CheckedComponent:
        return component("rms_norm", norms.RMSNorm, config)

    def encoder_layer(self, config: Config) -> CheckedComponent:
        return component("encoder_layer", model.EncoderLayer, config)

    def decoder_layer(self, config: Config) -> CheckedComponent:
        return component("decoder_layer", model.DecoderLayer, config)

    def encoder(self, config: Config) -> CheckedComponent:
        return component("encoder", model.Encoder, config)

    def decoder(self, config: Config) -> CheckedComponent:
        return component("decoder", model.Decoder, config)

    def transformer(self, config: Config) -> TransformerComponent:
        return component("transformer", model.Transformer, config, TransformerComponent)

    def loss(self, config: Config) -> CheckedComponent:
        return component("loss", Loss, config)

    def learning_rate(self, config: Config) -> LearningRate:
        return LearningRate(config)

    def clip_gradients(self, config: Config) -> Clipping:
        return Clipping(config)

    def optimizer(self, config: Config) -> Optimizer:
        return Optimizer(config, self.transformer(config))

    def trainer(self, config: Config) -> Trainer:
        return Trainer(self.transformer(config), config)

    def generate(self, config: Config) -> Generator:
        return component("generate", model.Transformer, config, Generator)

    def next_token_distribution(
        self,
        logits: Array,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> Array:
        check_sampling(temperature, top_k, top_p)
        given = np.ascontiguousarray(logits)
        p = sampling.next_token_distribution(torch.tensor(given), temperature, top_k, top_p)
        return p.numpy().astype(given.dtype)

    def rotary(self, config: Config) -> CheckedComponent:
        return component("rotary", positions.Rotary, config)

    def alibi_slopes(self, num_heads: int) -> Array:
        check_heads(num_heads)
        return positions.alibi_slopes(int(num_heads)).numpy()

    def relative_buckets(self, offsets: Array, buckets: int, distance: int, causal: bool = False) -> Array:
        given = torch.tensor(np.array(offsets, order="C"))
        check_buckets(given, buckets, distance, causal)
        return positions.relative_buckets(given, int(buckets), int(distance), causal).numpy()

    def relative_bias(self, config: Config) -> CheckedComponent:
        return component("relative_bias", positions.RelativeBias, config)

    def chunked_attention(self, config: Config) -> CheckedComponent:
        return component("chunked_attention", attention_variants.ChunkedAttention, config)

    def linear_attention(self, config: Config) -> CheckedComponent:
        return component("linear_attention", attention_variants.LinearAttention, config)

    def block_sparse_attention(self, config: Config) -> CheckedComponent:
        return component("block_sparse_attention", attention_variants.BlockSparseAttention, config)

    def self_attention(self, config: Config) -> CheckedComponent:
        return component("self_attention", language_model.SelfAttentionAlone, config)

    def causal_layer(self, config: Config) -> CheckedComponent:
        return component("causal_layer", language_model.CausalLayer, config)

    def language_model(self, config: Config) -> LanguageModelComponent:
        return component("language_model", language_model.LanguageModel, config, LanguageModelComponent)

    def language_model_optimizer(self, config: Config) -> Optimizer:
        return Optimizer(config, self.language_model(config))

    def language_model_trainer(self, config: Config) -> LanguageModelTrainer:
        return LanguageModelTrainer(self.language_model(config), config)

    def language_model_loss(self, config: Config) -> CheckedComponent:
        return component("language_model_loss", TextLoss, config)

    def masked_language_model(self, config: Config) -> CheckedComponent:
        return component("masked_language_model", encoder_models.MaskedLanguageModel, config)

    def mask_tokens(
        self, ids: Array, mask_id: int, vocabulary: int, special: Array, seed: int, rate: float = masking.RATE
    ) -> Array:
        given, never = (torch.tensor(np.array(x, np.int64, order="C")) for x in (ids, special))
        return masking.mask_tokens(given, mask_id, vocabulary, never, seed, rate).numpy()

    def masked_language_model_loss(self, config: Config) -> CheckedComponent:
        return component("masked_language_model_loss", masking.MaskedLoss, config)

    def classifier(self, config: Config) -> CheckedComponent:
        return component("classifier", encoder_models.Classifier, config)

    def masked_language_model_trainer(self, config: Config) -> MaskedLanguageModelTrainer:
        return MaskedLanguageModelTrainer(self.masked_language_model(config), config)

    def classifier_trainer(self, config: Config) -> ClassifierTrainer:
        return ClassifierTrainer(self.classifier(config), config)

    def complete(self, config: Config) -> Completer:
        return component("complete", language_model.LanguageModel, config, Completer)

    def linear(self, config: Config) -> CheckedComponent:
        return component("linear", first_principles.LinearMap, config)

    def activation(self, config: Config) -> CheckedComponent:
        return component("activation", first_principles.Activation, config)

    def softmax(self, config: Config) -> CheckedComponent:
        return component("softmax", first_principles.Softmax, config)

    def cross_entropy(self, config: Config) -> CheckedComponent:
        return component("cross_entropy", first_principles.CrossEntropy, config)

    def sgd(self, config: Config) -> first_principles.Update:
        return first_principles.Update("sgd", first_principles.SGD, config)

    def momentum(self, config: Config) -> first_principles.Update:
        return first_principles.Update("momentum", first_principles.Momentum, config)

    def adam(self, config: Config) -> first_principles.Update:
        return first_principles.Update("adam", first_principles.ConfiguredAdam, config)

    def adamw(self, config: Config) -> first_principles.Update:
        return first_principles.Update("adamw", first_principles.AdamW, config)

    xavier = staticmethod(first_principles.xavier)
    he = staticmethod(first_principles.he)


@pluggy.HookimplMarker("attest")
def attest_implementations() -> list[Eager]:
    return [Eager()]
