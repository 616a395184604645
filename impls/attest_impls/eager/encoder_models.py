"""Models with an encoder alone, in the manner of BERT (arXiv 1810.04805): every token sees every real one.

    ids (B, T)  [segments (B, T)]
        |
    embedding   [+ segments]   [+ positions]   [norm]
        |
    encoder, N layers as in language_model.py, with nothing hidden but padding
        |
        +-------------------------------------+
        |                                     |
    head: linear, activation, norm         pooled: one vector of each text
        |                                     |
    projection                            projection
        |                                     |
    logits (B, T, V)                      logits (B, C)
    MaskedLanguageModel                   Classifier

Shapes: B batch, T length, D width, V vocabulary, C classes.
"""

import torch
from torch import Tensor, nn

from attest.contract import Config

from .language_model import Layers, TextModel, positions_of, sight
from .model import ACTIVATIONS, Linear
from .norms import NORMS


class EncoderModel(TextModel):
    """From ids to one vector for each token."""

    def __init__(self, config: Config) -> None:
        # These two are of decoders, and none of the fields that an encoder reads.
        super().__init__(config.but(window=None, parallel=False), "source_vocab")
        self.segment_embedding = nn.Embedding(config.segments, config.d_model) if config.segments else None
        self.encoder = Layers(self.config, config.num_encoder_layers)
        self.head_bias = config.bias if config.head_bias is None else config.head_bias

    def encode(self, ids: Tensor, segments: Tensor | None) -> Tensor:
        real = self.real(ids)  # (B, T)
        positions = positions_of(real)  # (B, T)
        seen = sight(self.config, self.encoder.relative, positions, positions, real[:, None], causal=False)
        x = self.embed(ids, positions, self.kinds(ids, segments))  # (B, T, D)
        return self.encoder(x, seen, [None] * self.encoder.depth)  # (B, T, D)

    def kinds(self, ids: Tensor, segments: Tensor | None) -> Tensor | None:
        """Rows of the segments; a text that names none is all of the first."""
        if self.segment_embedding is None:
            return None
        return self.segment_embedding(torch.zeros_like(ids) if segments is None else segments)  # (B, T, D)


class Head(nn.Module):
    """Between the encoder and the projection of a masked language model."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = Linear(config.d_model, config.d_model, config.bias)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = NORMS[config.norm_kind](config)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.activation(self.dense(x)))  # (B, T, D)


class MaskedLanguageModel(EncoderModel):
    """Fills in what stands under the mask token: logits of every position, whatever it holds."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.head = Head(config)
        self.projection = Linear(config.d_model, config.source_vocab, self.head_bias)
        if config.tie:
            self.projection.weight = self.embedding.weight  # one array for both uses

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> dict[str, Tensor]:
        x = self.head(self.encode(ids, segments)) * self.config.projection_scale  # (B, T, D)
        return {"logits": self.projection(x)}  # (B, T, V)


class Classifier(EncoderModel):
    """One vector of each text, the mean of its real tokens, the first or the last, mapped to the classes."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.projection = Linear(config.d_model, config.num_classes, self.head_bias)

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> dict[str, Tensor]:
        x = self.encode(ids, segments)  # (B, T, D)
        shares = self.shares(self.real(ids)).to(x.dtype)  # (B, T)
        return {"logits": self.projection((shares.unsqueeze(1) @ x).squeeze(1))}  # (B, C)

    def shares(self, real: Tensor) -> Tensor:
        """How much of each token is in the vector. Padding has no share, wherever it stands."""
        count = real.cumsum(1)  # (B, T): real tokens up to here
        total = count[:, -1:].clamp(min=1)  # (B, 1): 0 / 0 is nan
        if self.config.pooling == "first":
            return real & (count == 1)  # (B, T)
        if self.config.pooling == "last":
            return real & (count == total)  # (B, T)
        return real.double() / total  # (B, T)
