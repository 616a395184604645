"""The Transformer in numpy alone, each gradient written out beside what it is the gradient of.

Read it in this order: data, layers, attention, multi_head, norm, feed_forward, embedding, blocks, model; then
loss, optimisation and training; then decoding, generation and beam. The models of today follow: positions,
self_attention, language_model, encoder_models, attention_variants. The modules with `operations` in their
name only check arguments and speak to the outside; first_principles offers each piece by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import pluggy

from attest.contract import Config

from . import (
    attention_variants,
    data,
    encoder_operations,
    first_principles,
    masks,
    operations,
    positions,
    sampling,
    stack_operations,
    text_operations,
    training,
)
from .arguments import DTYPES, compute_dtype
from .layers import DType, Random
from .model_operations import GeneratorOperation, TransformerOperation
from .optimisation import ClipGradients, LearningRate

C = TypeVar("C")

NETWORK = {"activation": ("silu", "gelu_tanh"), "gated": (True,)}  # of every feed-forward network
# The operations of models with one stack, and the options that they take.
TEXT = (
    "positional_encoding",
    "rotary",
    "relative_bias",
    "self_attention",
    "causal_layer",
    "language_model",
    "language_model_optimizer",
    "language_model_trainer",
    "complete",
    "masked_language_model",
    "masked_language_model_trainer",
    "classifier",
    "classifier_trainer",
)
HEADS = (
    *("num_kv_heads", "head_width", "window", "window_sides", "attention_scale", "score_cap", "sinks"),
    *("qk_norm", "qkv_bias"),
)
PLACES = (
    *("positions", "rotary_base", "rotary_pairing", "rotary_fraction", "rotary_scaling", "rotary_factor"),
    *("rotary_original", "rotary_slow_turns", "rotary_fast_turns"),
)
BUCKETS = ("relative_buckets", "relative_distance")
MODEL = ("norm_kind", "parallel", "embedding_norm", "head_bias", "projection_scale", "segments", "pooling")
OPTIONS = dict.fromkeys((*HEADS, *PLACES, *BUCKETS, *MODEL), "any")


def builder(component: Callable[[Config, DType, Random], C]) -> Callable[[Config], C]:
    """config -> component, its initial parameters drawn from the config's seed."""

    def build(config: Config) -> C:
        return component(config, compute_dtype(config), np.random.default_rng(config.seed))

    return staticmethod(build)


class NumpyScratch:
    """Every operation in numpy."""

    name = "numpy_scratch"
    description = "numpy only, with hand-written gradients"
    dtypes = DTYPES
    padding = ("none", "right", "left", "packed")
    supports: ClassVar[Sequence[Mapping[str, Any]]] = [NETWORK, {"operations": TEXT, **NETWORK, **OPTIONS}]

    length_mask = staticmethod(masks.length_mask)
    padding_mask = staticmethod(masks.padding_mask)
    causal_mask = staticmethod(masks.causal_mask)
    attention = builder(operations.AttentionOperation)
    qkv_projection = builder(operations.QkvProjection)
    multi_head_attention = builder(operations.MultiHeadOperation)
    feed_forward = builder(operations.feed_forward)
    token_embedding = builder(operations.TokenEmbedding)
    positional_encoding = builder(text_operations.PositionalEncoding)
    input_embedding = builder(operations.InputEmbeddingOperation)
    layer_norm = builder(operations.layer_norm)
    rms_norm = builder(operations.rms_norm)
    encoder_layer = builder(stack_operations.encoder_layer)
    decoder_layer = builder(stack_operations.decoder_layer)
    encoder = builder(stack_operations.encoder)
    decoder = builder(stack_operations.decoder)
    transformer = builder(TransformerOperation)
    rotary = builder(text_operations.RotaryOperation)
    alibi_slopes = staticmethod(positions.alibi_slopes)
    relative_buckets = staticmethod(positions.relative_buckets)
    relative_bias = builder(text_operations.RelativeBiasOperation)
    self_attention = builder(text_operations.SelfAttentionOperation)
    causal_layer = builder(text_operations.CausalLayerOperation)
    language_model = builder(text_operations.LanguageModelOperation)
    language_model_loss = builder(text_operations.LanguageModelLoss)
    language_model_optimizer = builder(training.TextOptimizer)
    language_model_trainer = builder(training.TextTrainer)
    complete = builder(text_operations.CompleteOperation)
    masked_language_model = builder(encoder_operations.MaskedLanguageModelOperation)
    mask_tokens = staticmethod(encoder_operations.mask_tokens)
    masked_language_model_loss = builder(encoder_operations.MaskedLoss)
    masked_language_model_trainer = builder(training.MaskedTrainer)
    classifier = builder(encoder_operations.ClassifierOperation)
    classifier_trainer = builder(training.ClassifierTrainer)
    chunked_attention = builder(attention_variants.ChunkedOperation)
    linear_attention = builder(attention_variants.LinearOperation)
    block_sparse_attention = builder(attention_variants.BlockSparseOperation)
    loss = builder(operations.LossOperation)
    learning_rate = LearningRate
    clip_gradients = ClipGradients
    optimizer = builder(training.Optimizer)
    trainer = builder(training.Trainer)
    generate = builder(GeneratorOperation)
    next_token_distribution = staticmethod(sampling.next_token_distribution)
    linear = builder(first_principles.linear)
    activation = builder(first_principles.activation)
    softmax = builder(first_principles.SoftmaxOperation)
    cross_entropy = builder(first_principles.CrossEntropyOperation)
    sgd = builder(first_principles.SGD)
    momentum = builder(first_principles.Momentum)
    adam = builder(first_principles.PlainAdam)
    adamw = builder(first_principles.AdamW)
    xavier = staticmethod(first_principles.xavier)
    he = staticmethod(first_principles.he)
    tokenize = staticmethod(data.tokenize)
    detokenize = staticmethod(data.detokenize)
    split_examples = staticmethod(data.split_examples)
    confusion_matrix = staticmethod(data.confusion_matrix)


@pluggy.HookimplMarker("attest")
def attest_implementations() -> list[NumpyScratch]:
    return [NumpyScratch()]
