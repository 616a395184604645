"""One value that every builder takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Config:
    """One flat value for every builder. Not validated here: refusing a bad one is the builder's duty."""

    d_model: int = 512
    num_heads: int = 8
    d_ff: int | None = None  # None: 4 * d_model
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    source_vocab: int = 32
    target_vocab: int = 32
    max_len: int = 512
    dropout: float = 0.1
    norm: str = "post"  # or "pre"
    norm_eps: float = 1e-5
    activation: str = "relu"  # or "gelu", the exact one
    bias: bool = True  # of every linear map; the norms keep theirs
    scale_embeddings: bool = True
    tie: bool = False  # projection.weight is target_embedding.weight
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    label_smoothing: float = 0.0
    schedule: str = "inverse_sqrt"  # or "cosine"
    warmup: int = 4000
    peak_rate: float = 1e-3  # cosine only
    floor_rate: float = 0.0  # cosine only
    total_steps: int = 100_000  # cosine only
    clip_norm: float = 1.0
    dtype: str = "float32"
    device: str = "cpu"
    seed: int = 0
    options: tuple[tuple[str, str], ...] = ()

    @property
    def inner_width(self) -> int:
        """Width of the feed-forward layer: d_ff, or four times d_model when it is None."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff

    def but(self, **changes: Any) -> Config:
        """A copy with some fields changed."""
        return replace(self, **changes)
