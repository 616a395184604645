"""The whole Transformer (the paper's figure 1): ids in, logits out.

Shapes: B batch, S source length, T target length, D width (d_model), V target vocabulary.
"""

from torch import Tensor, nn

from attest.contract import Config

from .arguments import MODEL, check_config, check_ids, check_same_batch, check_special_ids, check_width
from .attention import Linear, padding_mask
from .embedding import InputEmbedding
from .layers import Decoder, Encoder


class Transformer(nn.Module):
    """Encoder, decoder, an embedding for each and the projection to logits. Masks come from the ids."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        check_config(config, *MODEL)
        check_special_ids(config)
        self.config = config
        self.source_embedding = InputEmbedding(config, "source_vocab")
        self.target_embedding = InputEmbedding(config, "target_vocab")
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.projection = Linear(config.d_model, config.target_vocab, config.bias)
        if config.tie:
            # One array for both uses, and no factor on this side. Its padding row then does get a gradient:
            # as a class of the projection it is pushed down like any other.
            self.projection.weight = self.target_embedding.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        self._check("source", source)
        self._check("target", target)
        check_same_batch("target", target, "source", source)
        return self._decode(target, self._encode(source), source)

    def encode(self, source: Tensor) -> Tensor:
        """The memory (B, S, D)."""
        self._check("source", source)
        return self._encode(source)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """Logits (B, T, V) of what follows each position of the target."""
        self._check("target", target)
        self._check("source", source)
        check_width("memory", memory, self.config.d_model)
        if memory.shape[:2] != source.shape:
            shape = tuple(memory.shape)
            raise ValueError(f"memory shape={shape} is not that of source={tuple(source.shape)}; encode it")
        check_same_batch("target", target, "source", source)
        return self._decode(target, memory, source)

    def _encode(self, source: Tensor) -> Tensor:
        return self.encoder(self.source_embedding.at(source, 0), padding_mask(source, self.config.pad_id))

    def _decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        pad = self.config.pad_id
        x = self.target_embedding.at(target, 0)
        x = self.decoder(x, memory, padding_mask(target, pad), padding_mask(source, pad))
        return self.projection(x)

    def _check(self, name: str, ids: Tensor) -> None:
        check_ids(name, ids, getattr(self.config, f"{name}_vocab"), self.config.max_len)
