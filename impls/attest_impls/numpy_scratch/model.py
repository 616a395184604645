"""The whole model: embeddings, encoder, decoder, projection to logits (the paper's figure 1).

Shapes: B batch, S source length, T target length, D width, V target vocabulary.
"""

from __future__ import annotations

from attest.contract import Array, Config

from .blocks import Decoder, Encoder
from .embedding import InputEmbedding
from .layers import Cache, DType, Layer, Linear, Random
from .masks import padding_mask


class Transformer(Layer):
    """Ids in, raw logits out. Padding is masked by its id: as a source, as memory, and as a target."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        super().__init__()
        self.config = config
        source, target = config.source_vocab, config.target_vocab
        self.source_embedding = self.child("source_embedding", InputEmbedding(source, config, dtype, rng))
        self.target_embedding = self.child("target_embedding", InputEmbedding(target, config, dtype, rng))
        self.encoder = self.child("encoder", Encoder(config, dtype, rng))
        self.decoder = self.child("decoder", Decoder(config, dtype, rng))
        tied_to = self.target_embedding if config.tie else None
        projection = Linear(config.d_model, target, config.bias, dtype, rng, tied_to)
        self.projection = self.child("projection", projection)

    def visible(self, ids: Array) -> Array:
        """(B, 1, 1, length): for every head and query, the keys that are not padding."""
        return padding_mask(ids, self.config.pad_id)[:, None]

    def forward(self, source: Array, target: Array, rng: Random | None) -> tuple[Array, Cache]:
        memory, encoded = self.encode(source, rng)  # (B, S, D)
        logits, decoded = self.decode(target, memory, source, rng)  # (B, T, V)
        return logits, (encoded, decoded)

    def backward(self, dlogits: Array, cache: Cache) -> None:
        """Ids have no gradient, so all that is left of it stands in `grads`."""
        encoded, decoded = cache
        dmemory = self.decode_backward(dlogits, decoded)  # (B, S, D)
        self.encode_backward(dmemory, encoded)

    def encode(self, source: Array, rng: Random | None) -> tuple[Array, Cache]:
        x, embedded = self.source_embedding.forward(source, rng)  # (B, S, D)
        memory, encoded = self.encoder.forward(x, self.visible(source), rng)  # (B, S, D)
        return memory, (embedded, encoded)

    def encode_backward(self, dmemory: Array, cache: Cache) -> None:
        embedded, encoded = cache
        dx = self.encoder.backward(dmemory, encoded)  # (B, S, D)
        self.source_embedding.backward(dx, embedded)

    def decode(self, target: Array, memory: Array, source: Array, rng: Random | None) -> tuple[Array, Cache]:
        x, embedded = self.target_embedding.forward(target, rng)  # (B, T, D)
        x, decoded = self.decoder.forward(x, memory, self.visible(target), self.visible(source), rng)
        logits, projected = self.projection.forward(x)  # (B, T, V)
        return logits, (embedded, decoded, projected)

    def decode_backward(self, dlogits: Array, cache: Cache) -> Array:
        """The gradient of the memory. A tied weight collects from both ends: projection and lookup."""
        embedded, decoded, projected = cache
        dx = self.projection.backward(dlogits, projected)  # (B, T, D)
        dx, dmemory = self.decoder.backward(dx, decoded)  # (B, T, D), (B, S, D)
        self.target_embedding.backward(dx, embedded)
        return dmemory
