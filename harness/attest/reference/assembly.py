"""The parts of one component, put together.

`SLOTS` says which class stands in which place: for every slot a table from a value of the config to a class.
A further positional encoding, norm or wiring is one more class and one more row; many rows stand beside
their classes. A class that is given to `Parts` replaces the class that it is derived from, and nothing else:
that is how defects, variants and the oracle differ from the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attest.contract import Config
from attest.reference.decoding.cache import Cache
from attest.reference.decoding.sampling import Ranking, Sampling
from attest.reference.decoding.text_cache import TextCache
from attest.reference.models.decoder_only import DecoderOnly
from attest.reference.models.encoder_decoder import EncoderDecoder
from attest.reference.models.encoder_only import EncoderOnly
from attest.reference.parts.attention import Attention
from attest.reference.parts.block_sparse import BlockSparse
from attest.reference.parts.chunked import AllAtOnce, Chunked
from attest.reference.parts.data import Data
from attest.reference.parts.dropout import Dropout
from attest.reference.parts.embedding import Embedding, Logits
from attest.reference.parts.feed_forward import ACTIVATIONS, Activation, FeedForward
from attest.reference.parts.heads import HeadByHead, MultiHead
from attest.reference.parts.initialisation import Initialisation
from attest.reference.parts.layers import Layers
from attest.reference.parts.linear import Linear, Projections
from attest.reference.parts.linear_attention import LinearAttention
from attest.reference.parts.masking import TokenMasking
from attest.reference.parts.masks import Masks
from attest.reference.parts.norms import LayerNorm, Residual, RMSNorm
from attest.reference.parts.part import Part
from attest.reference.parts.positions import Positions
from attest.reference.parts.probabilities import CrossEntropy, Softmax
from attest.reference.parts.relative_positions import POSITIONS, Alibi, PairByPair, Relative, Rotary
from attest.reference.parts.rotary_scaling import SCALINGS, Scaling
from attest.reference.training.loss import Loss, MaskedLoss, Shift, TextLoss
from attest.reference.training.optimisation import Adam, Clipping, Schedule
from attest.reference.training.updates import AdamW, Momentum, PlainAdam, Sgd


@dataclass(frozen=True)
class Slot:
    """The classes for one place; the value of a config's field chooses among them."""

    rows: Mapping[Any, type[Part]]
    field: str | None = None

    def chosen(self, config: Config) -> type[Part]:
        """The first row also stands in for a value that no row has, until `check_config` refuses it."""
        value = None if self.field is None else getattr(config, self.field)
        return self.rows.get(value, next(iter(self.rows.values())))


def _only(piece: type[Part]) -> Slot:
    return Slot({None: piece})


SLOTS: Mapping[str, Slot] = {
    "linear": _only(Linear),
    "projections": _only(Projections),
    "dropout": _only(Dropout),
    "masks": _only(Masks),
    "attention": _only(Attention),
    "heads": _only(MultiHead),
    "chunked": _only(Chunked),
    "linear_attention": _only(LinearAttention),
    "block_sparse": _only(BlockSparse),
    "positions": Slot(POSITIONS, field="positions"),
    "rotary": _only(Rotary),
    "rotary_scaling": Slot(SCALINGS, field="rotary_scaling"),
    "alibi": _only(Alibi),
    "relative": _only(Relative),
    "embedding": _only(Embedding),
    "logits": _only(Logits),
    "norm": Slot({"layer": LayerNorm, "rms": RMSNorm}, field="norm_kind"),
    "rms_norm": _only(RMSNorm),
    "activation": Slot(ACTIVATIONS, field="activation"),
    "feed_forward": _only(FeedForward),
    "residual": _only(Residual),
    "layers": _only(Layers),
    "model": _only(EncoderDecoder),
    "language_model": _only(DecoderOnly),
    "encoder_only": _only(EncoderOnly),
    "token_masking": _only(TokenMasking),
    "shift": _only(Shift),
    "loss": _only(Loss),
    "text_loss": _only(TextLoss),
    "masked_loss": _only(MaskedLoss),
    "schedule": _only(Schedule),
    "clipping": _only(Clipping),
    "adam": _only(Adam),
    "cache": _only(Cache),
    "text_cache": _only(TextCache),
    "sampling": _only(Sampling),
    "ranking": _only(Ranking),
    "softmax": _only(Softmax),
    "cross_entropy": _only(CrossEntropy),
    "initialisation": _only(Initialisation),
    "data": _only(Data),
    "sgd": _only(Sgd),
    "momentum": _only(Momentum),
    "plain_adam": _only(PlainAdam),
    "adamw": _only(AdamW),
}


class Parts:
    """One part for every slot. An instance belongs to one component; `noise` is set while it trains."""

    linear: Linear
    projections: Projections
    dropout: Dropout
    masks: Masks
    attention: Attention
    heads: MultiHead
    chunked: Chunked
    linear_attention: LinearAttention
    block_sparse: BlockSparse
    positions: Positions
    rotary: Rotary
    rotary_scaling: Scaling
    alibi: Alibi
    relative: Relative
    embedding: Embedding
    logits: Logits
    norm: LayerNorm | RMSNorm
    rms_norm: RMSNorm
    activation: Activation
    feed_forward: FeedForward
    residual: Residual
    layers: Layers
    model: EncoderDecoder
    language_model: DecoderOnly
    encoder_only: EncoderOnly
    token_masking: TokenMasking
    shift: Shift
    loss: Loss
    text_loss: TextLoss
    masked_loss: MaskedLoss
    schedule: Schedule
    clipping: Clipping
    adam: Adam
    cache: Cache
    text_cache: TextCache
    sampling: Sampling
    ranking: Ranking
    softmax: Softmax
    cross_entropy: CrossEntropy
    initialisation: Initialisation
    data: Data
    sgd: Sgd
    momentum: Momentum
    plain_adam: PlainAdam
    adamw: AdamW

    def __init__(self, config: Config, *pieces: type[Part]) -> None:
        self.config, self.pieces = config, pieces
        self.noise: np.random.Generator | None = None  # None: evaluation, nothing is dropped
        replaced = {replaced_by(piece): piece for piece in pieces}
        for name, slot in SLOTS.items():
            chosen = slot.chosen(config)
            setattr(self, name, replaced.get(chosen, chosen)(config, self))

    def but(self, **changes: Any) -> Parts:
        """The same pieces for another config."""
        return Parts(self.config.but(**changes), *self.pieces)


def replaced_by(piece: type[Part]) -> type[Part]:
    """The class of the reference whose place this one takes."""
    rows = {row for slot in SLOTS.values() for row in slot.rows.values()}
    found = [base for base in piece.__mro__ if base in rows]
    assert found, f"{piece.__name__} is derived from no part of the reference"
    return found[0]


def oracle_parts(config: Config, *pieces: type[Part]) -> Parts:
    """What the oracle computes with: another derivation of heads, of pairs of features and of the softmax."""
    return Parts(config, HeadByHead, PairByPair, AllAtOnce, *pieces)
