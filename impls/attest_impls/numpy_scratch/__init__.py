"""The Transformer in numpy alone, each gradient written out beside what it is the gradient of."""

import numpy as np
import pluggy

from . import attention, model, operations, training
from .arguments import DTYPES, compute_dtype


def builder(component):
    """config -> component, its initial parameters drawn from the config's seed."""

    def build(config):
        return component(config, compute_dtype(config), np.random.default_rng(config.seed))

    return staticmethod(build)


class NumpyScratch:
    name = "numpy_scratch"
    description = "numpy only, with hand-written gradients"
    dtypes = DTYPES

    length_mask = staticmethod(attention.length_mask)
    padding_mask = staticmethod(attention.padding_mask)
    causal_mask = staticmethod(attention.causal_mask)
    attention = builder(operations.Attention)
    qkv_projection = builder(operations.QkvProjection)
    multi_head_attention = builder(operations.MultiHead)
    feed_forward = builder(operations.FeedForwardOperation)
    token_embedding = builder(operations.TokenEmbedding)
    positional_encoding = builder(operations.PositionalEncoding)
    input_embedding = builder(operations.InputEmbeddingOperation)
    layer_norm = builder(operations.LayerNormOperation)
    encoder_layer = builder(operations.encoder_layer)
    decoder_layer = builder(operations.decoder_layer)
    encoder = builder(operations.encoder)
    decoder = builder(operations.decoder)
    transformer = builder(model.TransformerOperation)
    loss = builder(training.Loss)
    learning_rate = builder(training.LearningRate)
    clip_gradients = builder(training.ClipGradients)
    optimizer = builder(training.Adam)


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [NumpyScratch()]
