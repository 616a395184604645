"""Models with an encoder alone: hidden tokens are filled in, or a whole text is classified.

Every token sees every real one. The layers are those of language_model with nothing hidden but padding.

Shapes: B batch, T tokens, D width, V vocabulary, C classes.
"""

from __future__ import annotations

import numpy as np

from attest.contract import Array, Config

from .activation import ACTIVATIONS
from .language_model import TextModel
from .layers import Cache, DType, Layer, Linear, Map, Random
from .norm import norm_of
from .self_attention import placed


class Segments(Layer):
    """A row for each kind of segment."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        shape = (config.segments, config.d_model)
        self.params["weight"] = rng.normal(0, config.d_model**-0.5, shape).astype(dtype)

    def forward(self, kinds: Array) -> tuple[Array, Cache]:
        return self.params["weight"][kinds], kinds  # (B, T, D)

    def backward(self, dx: Array, kinds: Cache) -> None:
        """A row is read at every place of its kind: its gradient is the sum over them."""
        np.add.at(self.grads["weight"], kinds, dx)


class EncoderModel(TextModel):
    """From ids to one vector for each token."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        # Windows and parallel sublayers are of decoders, and no field that an encoder reads.
        super().__init__(config.but(window=None, parallel=False), dtype, rng, "source_vocab")
        self.kinds = (
            self.child("segment_embedding", Segments(config, dtype, rng)) if config.segments else None
        )
        self.encoder = self.child("encoder", self.stack(config.num_encoder_layers, rng))

    def encode(self, ids: Array, segments: Array | None, rng: Random | None) -> tuple[Array, Cache]:
        real = self.real(ids)  # (B, T)
        positions = self.positions(real, np.zeros(len(ids), int))  # (B, T)
        beside, kinds = None, None
        if self.kinds is not None:  # a text that names no segments is all of the first kind
            beside, kinds = self.kinds.forward(np.zeros_like(ids) if segments is None else segments)
        x, embedded = self.embed(ids, positions, rng, beside)
        place = placed(self.config, positions, positions, real[:, None, None, :], False)
        x, read = self.through(self.encoder, x, place, rng)  # (B, T, D)
        return x, (embedded, kinds, read)

    def encode_backward(self, dx: Array, cache: Cache) -> None:
        embedded, kinds, read = cache
        dbeside = self.embed_backward(self.through_backward(self.encoder, dx, read), embedded)
        if self.kinds is not None:
            self.kinds.backward(dbeside, kinds)


class Head(Map):
    """A linear map, the activation and a norm, between the encoder and the projection."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        self.dense = self.child("dense", Linear(config.d_model, config.d_model, config.bias, dtype, rng))
        self.activation = ACTIVATIONS[config.activation]()
        self.norm = self.child("norm", norm_of(config, dtype))

    def forward(self, x: Array) -> tuple[Array, Cache]:
        h, dense = self.dense.forward(x)
        a, activated = self.activation.forward(h)
        y, normed = self.norm.forward(a)
        return y, (dense, activated, normed)

    def backward(self, dy: Array, cache: Cache) -> Array:
        dense, activated, normed = cache
        return self.dense.backward(self.activation.backward(self.norm.backward(dy, normed), activated), dense)


class MaskedLanguageModel(EncoderModel):
    """Logits of what stands at every place, also where the mask is."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__(config, dtype, rng)
        self.head = self.child("head", Head(config, dtype, rng))
        tied_to = self.embedding if config.tie else None
        self.projection = self.child("projection", self.projected(config.source_vocab, rng, tied_to))

    def forward(self, ids: Array, rng: Random | None, segments: Array | None = None) -> tuple[Array, Cache]:
        x, encoded = self.encode(ids, segments, rng)
        h, headed = self.head.forward(x)
        logits, projected = self.projection.forward(h * self.config.projection_scale)  # (B, T, V)
        return logits, (encoded, headed, projected)

    def backward(self, dlogits: Array, cache: Cache) -> None:
        encoded, headed, projected = cache
        dh = self.projection.backward(dlogits, projected) * self.config.projection_scale
        self.encode_backward(self.head.backward(dh, headed), encoded)


class Classifier(EncoderModel):
    """Logits of the classes, from the mean of the real tokens, the first of them or the last."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__(config, dtype, rng)
        self.projection = self.child("projection", self.projected(config.num_classes, rng))

    def forward(self, ids: Array, rng: Random | None, segments: Array | None = None) -> tuple[Array, Cache]:
        x, encoded = self.encode(ids, segments, rng)
        shares = self.shares(self.real(ids)).astype(self.dtype)  # (B, T)
        pooled = (shares[:, None, :] @ x)[:, 0]  # (B, D)
        logits, projected = self.projection.forward(pooled)  # (B, C)
        return logits, (encoded, shares, projected)

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """Each token moves what is pooled by its share."""
        encoded, shares, projected = cache
        dpooled = self.projection.backward(dlogits, projected)  # (B, D)
        self.encode_backward(shares[:, :, None] * dpooled[:, None, :], encoded)

    def shares(self, real: Array) -> Array:
        """How much of each token is pooled; padding has no share, wherever it stands."""
        count = real.cumsum(axis=1)  # (B, T): real tokens up to here
        total = np.maximum(count[:, -1:], 1)  # (B, 1): 0 / 0 is nan
        chosen: dict[str, Array] = {
            "mean": real / total,
            "first": real & (count == 1),
            "last": real & (count == total),
        }
        return chosen[self.config.pooling]
