"""The whole model: embeddings, encoder, decoder, projection to logits.

Shapes: B batch, S source length, T target length, D width, V target vocabulary.
"""

from . import arguments
from .attention import padding_mask
from .blocks import Decoder, Encoder
from .component import Component
from .embedding import InputEmbedding
from .layers import Layer, Linear


class Transformer(Layer):
    """Ids in, raw logits out. Padding is masked by its id: as a source, as memory, and as a target."""

    def __init__(self, config, dtype, rng):
        super().__init__()
        self.pad_id = config.pad_id
        self.source_embedding = InputEmbedding(config.source_vocab, config, dtype, rng)
        self.target_embedding = InputEmbedding(config.target_vocab, config, dtype, rng)
        self.encoder, self.decoder = Encoder(config, dtype, rng), Decoder(config, dtype, rng)
        tied_to = self.target_embedding if config.tie else None
        self.projection = Linear(config.d_model, config.target_vocab, config.bias, dtype, rng, tied_to)
        for name in ("source_embedding", "target_embedding", "encoder", "decoder", "projection"):
            self.children[name] = getattr(self, name)

    def visible(self, ids):
        """(B, 1, 1, length): for every head and query, the keys that are not padding."""
        return padding_mask(ids, self.pad_id)[:, None]

    def encode(self, source, rng):
        x, embedded = self.source_embedding.forward(source, rng)  # (B, S, D)
        memory, encoded = self.encoder.forward(x, self.visible(source), rng)
        return memory, (embedded, encoded)

    def encode_backward(self, dmemory, cache):
        embedded, encoded = cache
        self.source_embedding.backward(self.encoder.backward(dmemory, encoded), embedded)

    def decode(self, target, memory, source, rng):
        x, embedded = self.target_embedding.forward(target, rng)  # (B, T, D)
        x, decoded = self.decoder.forward(x, memory, self.visible(target), self.visible(source), rng)
        logits, projected = self.projection.forward(x)  # (B, T, V)
        return logits, (embedded, decoded, projected)

    def decode_backward(self, dlogits, cache):
        """The gradient of the memory. A tied weight collects from both ends: projection and lookup."""
        embedded, decoded, projected = cache
        dx, dmemory = self.decoder.backward(self.projection.backward(dlogits, projected), decoded)
        self.target_embedding.backward(dx, embedded)
        return dmemory


class TransformerOperation(Component):
    """source (B, S) and target (B, T) to logits (B, T, V)."""

    def __init__(self, config, dtype, rng):
        arguments.transformer(config)
        super().__init__(Transformer(config, dtype, rng), dtype)
        self.width, self.max_len = config.d_model, config.max_len
        self.vocabs = {"source": config.source_vocab, "target": config.target_vocab}

    def buffers(self):
        return {"positions": self.layer.source_embedding.positions.copy()}

    def run(self, rng, *, source, target):
        source, target = self._ids("source", source), self._ids("target", target)
        arguments.same_batch("target", target, len(source))
        memory, encoded = self.layer.encode(source, rng)
        logits, decoded = self.layer.decode(target, memory, source, rng)
        return {"logits": logits}, (encoded, decoded)

    def back(self, cotangent, cache):
        encoded, decoded = cache
        self.layer.encode_backward(self.layer.decode_backward(cotangent("logits"), decoded), encoded)
        return {}

    def encode(self, *, source):
        """memory (B, S, D)."""
        memory, _ = self.guarded(self.layer.encode, self._ids("source", source))
        return {"memory": memory}

    def decode(self, *, target, memory, source):
        """logits (B, T, V); `source` is there for its padding."""
        source, target = self._ids("source", source), self._ids("target", target)
        memory = arguments.real_array("memory", memory, self.dtype, rank=3, width=self.width)
        arguments.same_batch("target", target, len(source))
        fits = memory.shape[:2] == source.shape
        arguments.require(
            fits, "memory.shape", memory.shape, f"is not of source {source.shape}", "match them"
        )
        logits, _ = self.guarded(self.layer.decode, target, memory, source)
        return {"logits": logits}

    def _ids(self, name, ids):
        ids = arguments.id_array(name, ids, self.vocabs[name])
        arguments.require(ids.shape[1] > 0, f"{name}.shape", ids.shape, "is empty", "give at least one id")
        arguments.length_within(name, ids.shape[1], self.max_len)
        return ids
